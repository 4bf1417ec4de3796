// Runs nodes [first, last): one switch from Op to kernel, a barrier before nodes that need one.
//
// Every thread walks the same list. A kernel gets (node, ith, nth) and computes its share of the result; which thread
// computes an element never changes its bits. Small nodes are thread 0's alone; the others go on to the next barrier.

import { Flag, NODE_BYTES, Op } from "./abi";
import { barrier, checkAbort, enter } from "./control";
import { arange, timestepEmbedding } from "./kernels/arange";
import { addId } from "./kernels/add_id";
import { argmax, argsort, topK } from "./kernels/argsort";
import { add, div, mul, sub } from "./kernels/binary";
import { concat } from "./kernels/concat";
import { conv2d, conv2dDw } from "./kernels/conv_2d";
import { convTranspose1d, convTranspose2d } from "./kernels/conv_transpose";
import { cpy } from "./kernels/cpy";
import { diagMaskInf, diagMaskZero } from "./kernels/diag_mask_inf";
import { flashAttnExt } from "./kernels/flash_attn_ext";
import { getRows } from "./kernels/get_rows";
import { glu } from "./kernels/glu";
import { im2col } from "./kernels/im2col";
import { mulMat } from "./kernels/mul_mat";
import { groupNorm, l2Norm, norm, rmsNorm } from "./kernels/norm";
import { pad, padReflect1d, roll } from "./kernels/pad";
import { acc, set } from "./kernels/patch";
import { pool1d, pool2d } from "./kernels/pool";
import { mulMatId } from "./kernels/mul_mat_id";
import { cumsum, mean, sum, sumRows } from "./kernels/reduce";
import { repeat } from "./kernels/repeat";
import { rope } from "./kernels/rope";
import { setRows } from "./kernels/set_rows";
import { softMax } from "./kernels/soft_max";
import { ssmConv } from "./kernels/ssm_conv";
import { diag, tri } from "./kernels/tri";
import { clamp, cos, fill, leakyRelu, log, scale, sin, sqr, sqrt, unary } from "./kernels/unary";
import { upscale } from "./kernels/upscale";
import { Node } from "./node";
import { claimOf, clearClaims } from "./share";

// A new op must be looked at here: add its case to dispatch(), then raise this number.
if (Op.COUNT != 65) ERROR("compute.ts: new op without a kernel case");

/** Runs this thread's share. Leaves early when the run has failed. */
export function computeNodes(records: usize, first: i32, last: i32, ith: i32, nth: i32): void {
  let parity = 0;
  let shared = 0;
  for (let i = first; i < last; i++) {
    const n = changetype<Node>(records + <usize>i * NODE_BYTES);
    if (n.op <= Op.TRANSPOSE) continue;
    if (i > first && (nth == 1 || n.flags & Flag.MEET)) {
      if (ith == 0) checkAbort();
      if (!barrier(nth)) return;
      if (ith == 0) clearClaims(parity, shared);
      parity ^= 1;
      shared = 0;
    }
    const solo = (n.flags & Flag.SOLO) != 0 || nth == 1;
    if (solo && ith != 0) continue;
    enter(ith, i);
    dispatch(n, ith, solo ? 1 : nth, solo ? 0 : claimOf(parity, shared++));
  }
}

// Three parts, so that each stays small enough for an engine to compile at once.
// prettier-ignore
function dispatch(n: Node, ith: i32, nth: i32, claim: usize): void {
  switch (n.op) {
    case Op.MUL_MAT: return mulMat(n, ith, nth, claim);
    case Op.MUL_MAT_ID: return mulMatId(n, ith, nth);
    case Op.FLASH_ATTN_EXT: return flashAttnExt(n, ith, nth, claim);
    case Op.DUP:
    case Op.CONT:
    case Op.CPY: return cpy(n, ith, nth);
    case Op.GET_ROWS: return getRows(n, ith, nth);
    case Op.SET_ROWS: return setRows(n, ith, nth);
    case Op.REPEAT: return repeat(n, ith, nth);
    case Op.CONCAT: return concat(n, ith, nth);
    case Op.NORM: return norm(n, ith, nth);
    case Op.RMS_NORM: return rmsNorm(n, ith, nth);
    case Op.L2_NORM: return l2Norm(n, ith, nth);
    case Op.ROPE: return rope(n, ith, nth);
    case Op.SOFT_MAX: return softMax(n, ith, nth);
    case Op.DIAG_MASK_INF: return diagMaskInf(n, ith, nth);
    case Op.SUM: return sum(n, ith, nth);
    case Op.SUM_ROWS: return sumRows(n, ith, nth);
    case Op.MEAN: return mean(n, ith, nth);
    case Op.CUMSUM: return cumsum(n, ith, nth);
    case Op.ARGMAX: return argmax(n, ith, nth);
    case Op.ARGSORT: return argsort(n, ith, nth);
    case Op.TOP_K: return topK(n, ith, nth);
    default: dispatchElements(n, ith, nth);
  }
}

// prettier-ignore
function dispatchElements(n: Node, ith: i32, nth: i32): void {
  switch (n.op) {
    case Op.ADD:
    case Op.ADD1: return add(n, ith, nth);
    case Op.ADD_ID: return addId(n, ith, nth);
    case Op.SUB: return sub(n, ith, nth);
    case Op.MUL: return mul(n, ith, nth);
    case Op.DIV: return div(n, ith, nth);
    case Op.SQR: return sqr(n, ith, nth);
    case Op.SQRT: return sqrt(n, ith, nth);
    case Op.LOG: return log(n, ith, nth);
    case Op.SIN: return sin(n, ith, nth);
    case Op.COS: return cos(n, ith, nth);
    case Op.SCALE: return scale(n, ith, nth);
    case Op.CLAMP: return clamp(n, ith, nth);
    case Op.LEAKY_RELU: return leakyRelu(n, ith, nth);
    case Op.FILL: return fill(n, ith, nth);
    case Op.UNARY: return unary(n, ith, nth);
    case Op.GLU: return glu(n, ith, nth);
    default: dispatchImages(n, ith, nth);
  }
}

// Signals and images, and what is seldom used.
// prettier-ignore
function dispatchImages(n: Node, ith: i32, nth: i32): void {
  switch (n.op) {
    case Op.ACC: return acc(n, ith, nth);
    case Op.SET: return set(n, ith, nth);
    case Op.GROUP_NORM: return groupNorm(n, ith, nth);
    case Op.IM2COL: return im2col(n, ith, nth);
    case Op.CONV_2D: return conv2d(n, ith, nth);
    case Op.CONV_2D_DW: return conv2dDw(n, ith, nth);
    case Op.CONV_TRANSPOSE_1D: return convTranspose1d(n, ith, nth);
    case Op.CONV_TRANSPOSE_2D: return convTranspose2d(n, ith, nth);
    case Op.POOL_1D: return pool1d(n, ith, nth);
    case Op.POOL_2D: return pool2d(n, ith, nth);
    case Op.UPSCALE: return upscale(n, ith, nth);
    case Op.PAD: return pad(n, ith, nth);
    case Op.PAD_REFLECT_1D: return padReflect1d(n, ith, nth);
    case Op.ROLL: return roll(n, ith, nth);
    case Op.ARANGE: return arange(n, ith, nth);
    case Op.TIMESTEP_EMBEDDING: return timestepEmbedding(n, ith, nth);
    case Op.DIAG_MASK_ZERO: return diagMaskZero(n, ith, nth);
    case Op.TRI: return tri(n, ith, nth);
    case Op.DIAG: return diag(n, ith, nth);
    case Op.SSM_CONV: return ssmConv(n, ith, nth);
    default: unreachable();
  }
}
