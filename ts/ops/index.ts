// All operators: the table that leaves none out, and each definition by name for callers that want its parameter types.

import { Op } from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import { addDef } from "./add.ts";
import { addIdDef } from "./add_id.ts";
import { argmaxDef } from "./argmax.ts";
import { argsortDef } from "./argsort.ts";
import { clampDef } from "./clamp.ts";
import { concatDef } from "./concat.ts";
import { contDef } from "./cont.ts";
import { cosDef } from "./cos.ts";
import { cpyDef } from "./cpy.ts";
import { cumsumDef } from "./cumsum.ts";
import { diagMaskInfDef } from "./diag_mask_inf.ts";
import { divDef } from "./div.ts";
import { dupDef } from "./dup.ts";
import { fillDef } from "./fill.ts";
import { flashAttnExtDef } from "./flash_attn_ext.ts";
import { getRowsDef } from "./get_rows.ts";
import { gluDef } from "./glu.ts";
import { l2NormDef } from "./l2_norm.ts";
import { leakyReluDef } from "./leaky_relu.ts";
import { logDef } from "./log.ts";
import { meanDef } from "./mean.ts";
import { mulDef } from "./mul.ts";
import { mulMatDef } from "./mul_mat.ts";
import { mulMatIdDef } from "./mul_mat_id.ts";
import { normDef } from "./norm.ts";
import { permuteDef } from "./permute.ts";
import { repeatDef } from "./repeat.ts";
import { reshapeDef } from "./reshape.ts";
import { rmsNormDef } from "./rms_norm.ts";
import { ropeDef } from "./rope.ts";
import { scaleDef } from "./scale.ts";
import { setRowsDef } from "./set_rows.ts";
import { sinDef } from "./sin.ts";
import { softMaxDef } from "./soft_max.ts";
import { sqrDef } from "./sqr.ts";
import { sqrtDef } from "./sqrt.ts";
import { subDef } from "./sub.ts";
import { sumDef } from "./sum.ts";
import { sumRowsDef } from "./sum_rows.ts";
import { topKDef } from "./top_k.ts";
import { transposeDef } from "./transpose.ts";
import { unaryDef } from "./unary.ts";
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
