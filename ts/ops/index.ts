// All operators: the table that leaves none out. defs.ts has each definition by name.

import { Op } from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import { accDef } from "./acc.ts";
import { addDef } from "./add.ts";
import { add1Def } from "./add1.ts";
import { arangeDef } from "./arange.ts";
import { addIdDef } from "./add_id.ts";
import { argmaxDef } from "./argmax.ts";
import { argsortDef } from "./argsort.ts";
import { clampDef } from "./clamp.ts";
import { concatDef } from "./concat.ts";
import { contDef } from "./cont.ts";
import { conv2dDef } from "./conv_2d.ts";
import { conv2dDwDef } from "./conv_2d_dw.ts";
import { convTranspose1dDef } from "./conv_transpose_1d.ts";
import { convTranspose2dDef } from "./conv_transpose_2d.ts";
import { cosDef } from "./cos.ts";
import { cpyDef } from "./cpy.ts";
import { cumsumDef } from "./cumsum.ts";
import { diagDef } from "./diag.ts";
import { diagMaskInfDef } from "./diag_mask_inf.ts";
import { diagMaskZeroDef } from "./diag_mask_zero.ts";
import { divDef } from "./div.ts";
import { dupDef } from "./dup.ts";
import { fillDef } from "./fill.ts";
import { flashAttnExtDef } from "./flash_attn_ext.ts";
import { getRowsDef } from "./get_rows.ts";
import { gluDef } from "./glu.ts";
import { groupNormDef } from "./group_norm.ts";
import { im2colDef } from "./im2col.ts";
import { l2NormDef } from "./l2_norm.ts";
import { leakyReluDef } from "./leaky_relu.ts";
import { logDef } from "./log.ts";
import { meanDef } from "./mean.ts";
import { mulDef } from "./mul.ts";
import { mulMatDef } from "./mul_mat.ts";
import { mulMatIdDef } from "./mul_mat_id.ts";
import { normDef } from "./norm.ts";
import { padDef } from "./pad.ts";
import { padReflect1dDef } from "./pad_reflect_1d.ts";
import { permuteDef } from "./permute.ts";
import { pool1dDef } from "./pool_1d.ts";
import { pool2dDef } from "./pool_2d.ts";
import { repeatDef } from "./repeat.ts";
import { reshapeDef } from "./reshape.ts";
import { rmsNormDef } from "./rms_norm.ts";
import { rollDef } from "./roll.ts";
import { ropeDef } from "./rope.ts";
import { scaleDef } from "./scale.ts";
import { setDef } from "./set.ts";
import { setRowsDef } from "./set_rows.ts";
import { sinDef } from "./sin.ts";
import { softMaxDef } from "./soft_max.ts";
import { sqrDef } from "./sqr.ts";
import { sqrtDef } from "./sqrt.ts";
import { ssmConvDef } from "./ssm_conv.ts";
import { subDef } from "./sub.ts";
import { sumDef } from "./sum.ts";
import { sumRowsDef } from "./sum_rows.ts";
import { timestepEmbeddingDef } from "./timestep_embedding.ts";
import { topKDef } from "./top_k.ts";
import { transposeDef } from "./transpose.ts";
import { triDef } from "./tri.ts";
import { unaryDef } from "./unary.ts";
import { upscaleDef } from "./upscale.ts";
import { viewDef } from "./view.ts";
import type { OpDef } from "./op.ts";

/** Definition of every operator. Leaving one out does not compile. */
export const OPS: { readonly [K in Exclude<Op, Op.NONE | Op.COUNT>]: OpDef<never> } = {
  [Op.RESHAPE]: reshapeDef,
  [Op.VIEW]: viewDef,
  [Op.PERMUTE]: permuteDef,
  [Op.TRANSPOSE]: transposeDef,
  [Op.DUP]: dupDef,
  [Op.CONT]: contDef,
  [Op.CPY]: cpyDef,
  [Op.ADD]: addDef,
  [Op.ADD_ID]: addIdDef,
  [Op.SUB]: subDef,
  [Op.MUL]: mulDef,
  [Op.DIV]: divDef,
  [Op.SQR]: sqrDef,
  [Op.SQRT]: sqrtDef,
  [Op.LOG]: logDef,
  [Op.SIN]: sinDef,
  [Op.COS]: cosDef,
  [Op.SCALE]: scaleDef,
  [Op.CLAMP]: clampDef,
  [Op.LEAKY_RELU]: leakyReluDef,
  [Op.FILL]: fillDef,
  [Op.UNARY]: unaryDef,
  [Op.GLU]: gluDef,
  [Op.SUM]: sumDef,
  [Op.SUM_ROWS]: sumRowsDef,
  [Op.MEAN]: meanDef,
  [Op.CUMSUM]: cumsumDef,
  [Op.ARGMAX]: argmaxDef,
  [Op.ARGSORT]: argsortDef,
  [Op.TOP_K]: topKDef,
  [Op.REPEAT]: repeatDef,
  [Op.CONCAT]: concatDef,
  [Op.NORM]: normDef,
  [Op.RMS_NORM]: rmsNormDef,
  [Op.L2_NORM]: l2NormDef,
  [Op.MUL_MAT]: mulMatDef,
  [Op.MUL_MAT_ID]: mulMatIdDef,
  [Op.FLASH_ATTN_EXT]: flashAttnExtDef,
  [Op.GET_ROWS]: getRowsDef,
  [Op.SET_ROWS]: setRowsDef,
  [Op.DIAG_MASK_INF]: diagMaskInfDef,
  [Op.SOFT_MAX]: softMaxDef,
  [Op.ROPE]: ropeDef,
  [Op.ADD1]: add1Def,
  [Op.ACC]: accDef,
  [Op.SET]: setDef,
  [Op.GROUP_NORM]: groupNormDef,
  [Op.IM2COL]: im2colDef,
  [Op.CONV_2D]: conv2dDef,
  [Op.CONV_2D_DW]: conv2dDwDef,
  [Op.CONV_TRANSPOSE_1D]: convTranspose1dDef,
  [Op.CONV_TRANSPOSE_2D]: convTranspose2dDef,
  [Op.POOL_1D]: pool1dDef,
  [Op.POOL_2D]: pool2dDef,
  [Op.UPSCALE]: upscaleDef,
  [Op.PAD]: padDef,
  [Op.PAD_REFLECT_1D]: padReflect1dDef,
  [Op.ROLL]: rollDef,
  [Op.ARANGE]: arangeDef,
  [Op.TIMESTEP_EMBEDDING]: timestepEmbeddingDef,
  [Op.DIAG_MASK_ZERO]: diagMaskZeroDef,
  [Op.TRI]: triDef,
  [Op.DIAG]: diagDef,
  [Op.SSM_CONV]: ssmConvDef,
};

/**
 * Definition of an operator.
 *
 * @throws {GraphError} for {@link Op.NONE} and unknown ids
 */
export function opDef(op: Op): OpDef<never> {
  const def = (OPS as { readonly [id: number]: OpDef<never> | undefined })[op];
  if (def === undefined)
    throw new GraphError("unsupported-op", `op ${op}: there is no such operator`, { actual: op });
  return def;
}
