// The cases of every operator; leaving one out does not compile.

import { Op } from "../../assembly/abi.ts";
import { argmaxCases, argsortCases, topKCases } from "./argsort.ts";
import { casesOf as binaryCases } from "./binary.ts";
import type { Case } from "./case.ts";
import { concatCases, contCases, cpyCases, dupCases, repeatCases } from "./copy.ts";
import {
  conv2dCases,
  conv2dDwCases,
  convTranspose1dCases,
  convTranspose2dCases,
  im2colCases,
} from "./conv.ts";
import { gluCases } from "./glu.ts";
import { mapCases } from "./map.ts";
import {
  accCases,
  add1Cases,
  diagCases,
  diagMaskZeroCases,
  groupNormCases,
  setCases,
  ssmConvCases,
  triCases,
} from "./matrix.ts";
import { addIdCases, mulMatIdCases } from "./mul_mat_id.ts";
import { normCases } from "./norm.ts";
import { pool1dCases, pool2dCases } from "./pool.ts";
import { cumsumCases, meanCases, sumCases, sumRowsCases } from "./reduce.ts";
import {
  arangeCases,
  padCases,
  padReflect1dCases,
  rollCases,
  timestepEmbeddingCases,
  upscaleCases,
} from "./resample.ts";
import { ropeCases } from "./rope.ts";
import { getRowsCases, setRowsCases } from "./rows.ts";
import { diagMaskInfCases, softMaxCases } from "./soft_max.ts";
import { unaryCases } from "./unary.ts";
import { permuteCases, reshapeCases, transposeCases, viewCases } from "./views.ts";

/** Products and attention have test files of their own. */
type Elsewhere = Op.NONE | Op.COUNT | Op.MUL_MAT | Op.FLASH_ATTN_EXT;

export const CASES: { readonly [K in Exclude<Op, Elsewhere>]: readonly Case[] } = {
  [Op.RESHAPE]: reshapeCases,
  [Op.VIEW]: viewCases,
  [Op.PERMUTE]: permuteCases,
  [Op.TRANSPOSE]: transposeCases,
  [Op.DUP]: dupCases,
  [Op.CONT]: contCases,
  [Op.CPY]: cpyCases,
  [Op.ADD]: binaryCases(Op.ADD),
  [Op.ADD_ID]: addIdCases,
  [Op.SUB]: binaryCases(Op.SUB),
  [Op.MUL]: binaryCases(Op.MUL),
  [Op.DIV]: binaryCases(Op.DIV),
  [Op.SQR]: mapCases(Op.SQR),
  [Op.SQRT]: mapCases(Op.SQRT),
  [Op.LOG]: mapCases(Op.LOG),
  [Op.SIN]: mapCases(Op.SIN),
  [Op.COS]: mapCases(Op.COS),
  [Op.SCALE]: mapCases(Op.SCALE),
  [Op.CLAMP]: mapCases(Op.CLAMP),
  [Op.LEAKY_RELU]: mapCases(Op.LEAKY_RELU),
  [Op.FILL]: mapCases(Op.FILL),
  [Op.UNARY]: unaryCases,
  [Op.GLU]: gluCases,
  [Op.SUM]: sumCases,
  [Op.SUM_ROWS]: sumRowsCases,
  [Op.MEAN]: meanCases,
  [Op.CUMSUM]: cumsumCases,
  [Op.ARGMAX]: argmaxCases,
  [Op.ARGSORT]: argsortCases,
  [Op.TOP_K]: topKCases,
  [Op.REPEAT]: repeatCases,
  [Op.CONCAT]: concatCases,
  [Op.NORM]: normCases(Op.NORM),
  [Op.RMS_NORM]: normCases(Op.RMS_NORM),
  [Op.L2_NORM]: normCases(Op.L2_NORM),
  [Op.MUL_MAT_ID]: mulMatIdCases,
  [Op.GET_ROWS]: getRowsCases,
  [Op.SET_ROWS]: setRowsCases,
  [Op.DIAG_MASK_INF]: diagMaskInfCases,
  [Op.SOFT_MAX]: softMaxCases,
  [Op.ROPE]: ropeCases,
  [Op.ADD1]: add1Cases,
  [Op.ACC]: accCases,
  [Op.SET]: setCases,
  [Op.GROUP_NORM]: groupNormCases,
  [Op.IM2COL]: im2colCases,
  [Op.CONV_2D]: conv2dCases,
  [Op.CONV_2D_DW]: conv2dDwCases,
  [Op.CONV_TRANSPOSE_1D]: convTranspose1dCases,
  [Op.CONV_TRANSPOSE_2D]: convTranspose2dCases,
  [Op.POOL_1D]: pool1dCases,
  [Op.POOL_2D]: pool2dCases,
  [Op.UPSCALE]: upscaleCases,
  [Op.PAD]: padCases,
  [Op.PAD_REFLECT_1D]: padReflect1dCases,
  [Op.ROLL]: rollCases,
  [Op.ARANGE]: arangeCases,
  [Op.TIMESTEP_EMBEDDING]: timestepEmbeddingCases,
  [Op.DIAG_MASK_ZERO]: diagMaskZeroCases,
  [Op.TRI]: triCases,
  [Op.DIAG]: diagCases,
  [Op.SSM_CONV]: ssmConvCases,
};
