// Kernels of the GPU by operator.

import { Op } from "../../../assembly/abi.ts";
import type { Kernels } from "../kernel.ts";
import { binaryKernel } from "./binary.ts";
import { copyKernel } from "./copy.ts";
import { getRowsKernel } from "./get_rows.ts";
import { flashAttnExtKernel } from "./flash_attn_ext.ts";
import { gluKernel } from "./glu.ts";
import { mulMatKernel } from "./mul_mat.ts";
import { addIdKernel, mulMatIdKernel } from "./mul_mat_id.ts";
import { groupNormKernel, normKernel } from "./norm.ts";
import { cumsumKernel, sumKernel, sumRowsKernel } from "./reduce.ts";
import { ropeKernel } from "./rope.ts";
import { setRowsKernel } from "./set_rows.ts";
import { softMaxKernel } from "./soft_max.ts";
import { unaryKernel } from "./unary.ts";

export const KERNELS: Kernels = {
  [Op.ADD]: binaryKernel("+"),
  [Op.ADD1]: binaryKernel("+"),
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
  [Op.NORM]: normKernel("norm"),
  [Op.RMS_NORM]: normKernel("rms_norm"),
  [Op.L2_NORM]: normKernel("l2_norm"),
  [Op.GROUP_NORM]: groupNormKernel,
  [Op.SOFT_MAX]: softMaxKernel,
  [Op.MUL_MAT]: mulMatKernel,
  [Op.ROPE]: ropeKernel,
  [Op.FLASH_ATTN_EXT]: flashAttnExtKernel,
  [Op.MUL_MAT_ID]: mulMatIdKernel,
  [Op.ADD_ID]: addIdKernel,
  [Op.DUP]: copyKernel,
  [Op.CONT]: copyKernel,
  [Op.CPY]: copyKernel,
  [Op.GET_ROWS]: getRowsKernel,
  [Op.SET_ROWS]: setRowsKernel,
};
