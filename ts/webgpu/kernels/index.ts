// Kernels of the GPU by operator.

import { Op } from "../../../assembly/abi.ts";
import type { ViewOp } from "../../ops/op.ts";
import type { GpuKernel, Kernels } from "../kernel.ts";
import { binaryKernel } from "./binary.ts";
import {
  conv2dDwKernel,
  conv2dKernel,
  convTranspose1dKernel,
  convTranspose2dKernel,
  im2colKernel,
  ssmConvKernel,
} from "./conv.ts";
import { copyKernel } from "./copy.ts";
import { flashAttnExtKernel } from "./flash_attn_ext.ts";
import { getRowsKernel } from "./get_rows.ts";
import { gluKernel } from "./glu.ts";
import { mulMatKernel } from "./mul_mat.ts";
import { addIdKernel, mulMatIdKernel } from "./mul_mat_id.ts";
import { groupNormKernel, normKernel } from "./norm.ts";
import { arangeKernel, timestepEmbeddingKernel } from "./numbers.ts";
import { patchKernel } from "./patch.ts";
import { poolKernel } from "./pool.ts";
import { cumsumKernel, sumKernel, sumRowsKernel } from "./reduce.ts";
import { ropeKernel } from "./rope.ts";
import { setRowsKernel } from "./set_rows.ts";
import { softMaxKernel } from "./soft_max.ts";
import { argmaxKernel, sortKernel } from "./sort.ts";
import { concatKernel, padKernel, padReflect1dKernel, repeatKernel, rollKernel } from "./tiles.ts";
import { diagKernel, diagMaskInfKernel, diagMaskZeroKernel, triKernel } from "./triangle.ts";
import { unaryKernel } from "./unary.ts";
import { upscaleKernel } from "./upscale.ts";

/** Operators that compute something. */
type Computed = Exclude<Op, Op.NONE | Op.COUNT | ViewOp>;

// Leaving one out does not compile.
const ALL: { readonly [K in Computed]: GpuKernel } = {
  [Op.DUP]: copyKernel,
  [Op.CONT]: copyKernel,
  [Op.CPY]: copyKernel,
  [Op.ADD]: binaryKernel("+"),
  [Op.SUB]: binaryKernel("-"),
  [Op.MUL]: binaryKernel("*"),
  [Op.DIV]: binaryKernel("/"),
  [Op.SQR]: unaryKernel,
  [Op.SQRT]: unaryKernel,
  [Op.LOG]: unaryKernel,
  [Op.SIN]: unaryKernel,
  [Op.COS]: unaryKernel,
  [Op.SCALE]: unaryKernel,
  [Op.CLAMP]: unaryKernel,
  [Op.LEAKY_RELU]: unaryKernel,
  [Op.FILL]: unaryKernel,
  [Op.UNARY]: unaryKernel,
  [Op.GLU]: gluKernel,
  [Op.SUM]: sumKernel,
  [Op.SUM_ROWS]: sumRowsKernel(false),
  [Op.MEAN]: sumRowsKernel(true),
  [Op.CUMSUM]: cumsumKernel,
  [Op.ARGMAX]: argmaxKernel,
  [Op.ARGSORT]: sortKernel,
  [Op.TOP_K]: sortKernel,
  [Op.REPEAT]: repeatKernel,
  [Op.CONCAT]: concatKernel,
  [Op.NORM]: normKernel("norm"),
  [Op.RMS_NORM]: normKernel("rms_norm"),
  [Op.L2_NORM]: normKernel("l2_norm"),
  [Op.MUL_MAT]: mulMatKernel,
  [Op.GET_ROWS]: getRowsKernel,
  [Op.SET_ROWS]: setRowsKernel,
  [Op.DIAG_MASK_INF]: diagMaskInfKernel,
  [Op.SOFT_MAX]: softMaxKernel,
  [Op.ROPE]: ropeKernel,
  [Op.FLASH_ATTN_EXT]: flashAttnExtKernel,
  [Op.ADD1]: binaryKernel("+"),
  [Op.ACC]: patchKernel("acc"),
  [Op.SET]: patchKernel("set"),
  [Op.GROUP_NORM]: groupNormKernel,
  [Op.IM2COL]: im2colKernel,
  [Op.CONV_2D]: conv2dKernel,
  [Op.CONV_2D_DW]: conv2dDwKernel,
  [Op.CONV_TRANSPOSE_1D]: convTranspose1dKernel,
  [Op.CONV_TRANSPOSE_2D]: convTranspose2dKernel,
  [Op.POOL_1D]: poolKernel(false),
  [Op.POOL_2D]: poolKernel(true),
  [Op.UPSCALE]: upscaleKernel,
  [Op.PAD]: padKernel,
  [Op.PAD_REFLECT_1D]: padReflect1dKernel,
  [Op.ROLL]: rollKernel,
  [Op.ARANGE]: arangeKernel,
  [Op.TIMESTEP_EMBEDDING]: timestepEmbeddingKernel,
  [Op.DIAG_MASK_ZERO]: diagMaskZeroKernel,
  [Op.TRI]: triKernel,
  [Op.DIAG]: diagKernel,
  [Op.SSM_CONV]: ssmConvKernel,
  [Op.MUL_MAT_ID]: mulMatIdKernel,
  [Op.ADD_ID]: addIdKernel,
};

export const KERNELS: Kernels = ALL;
