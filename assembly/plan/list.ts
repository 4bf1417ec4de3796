// Planning a bare list of lifetimes: no tensors, no records.

import { PLAN_RESULT_BYTES, PlanStatus } from "../abi";
import { placeBytes, placeList } from "./place";
import { report } from "./result";
import { alignOk, getf, geti, HEADER_BYTES, pad, Plan, planInit, SIZE_LIMIT } from "./work";

/** Bytes of workspace for planBuffers over `n` buffers. */
export function planWorkspace(n: i32): f64 {
  return f64(HEADER_BYTES) + f64(placeBytes(max(n, 0)));
}

/**
 * Places `n` buffers, each alive in [lower, upper), so that none that are alive together overlap. Buffers without bytes
 * or without a lifetime keep what stands in pOffset.
 *
 * @param pLower   i32[n]
 * @param pUpper   i32[n]
 * @param pSize    f64[n], bytes, whole
 * @param pOffset  f64[n], written; with pre-placed buffers theirs on entry, and -1 for the others
 * @param pAlign   f64[n], multiples of `align`; or 0
 * @param pFixed   i32[nFixed], the pre-placed by ascending offset; they may not overlap
 * @param align    bytes; offsets are multiples of it, sizes are padded to it
 * @param chunk    bytes; no buffer crosses a multiple of it, none may be larger; Infinity for none
 * @param capacity bytes to aim at when larger than the lower bound; 0: the lower bound
 * @param budget   work, in buffers looked at
 * @param pWork    planWorkspace(n) bytes, 16-byte aligned
 * @param pResult  PLAN_RESULT_BYTES
 * @returns PlanStatus
 */
export function planBuffers(
  pLower: usize,
  pUpper: usize,
  pSize: usize,
  pOffset: usize,
  pAlign: usize,
  pFixed: usize,
  n: i32,
  nFixed: i32,
  align: f64,
  chunk: f64,
  capacity: f64,
  budget: f64,
  seed: i32,
  pWork: usize,
  pResult: usize,
): i32 {
  memory.fill(pResult, 0, PLAN_RESULT_BYTES);
  if (n < 0 || nFixed < 0 || nFixed > n || !alignOk(align) || !(chunk >= 1)) return PlanStatus.BAD_COUNT;
  const p = planInit(pWork, align, budget, seed);
  p.nList = n;
  p.lower = pLower;
  p.upper = pUpper;
  p.bytes = pSize;
  p.offset = pOffset;
  p.aligns = pAlign;
  p.fixed = pFixed;
  p.nFixed = nFixed;
  p.chunk = chunk;
  p.plain = pAlign == 0 && nFixed == 0 && chunk == Infinity;
  for (let i = 0; i < n; i++) {
    if (geti(pUpper, i) < geti(pLower, i)) return PlanStatus.BAD_LIFETIME;
  }
  const sum = total(p);
  if (!(sum < SIZE_LIMIT)) return PlanStatus.BAD_SIZE;
  p.best = Infinity;
  placeList(p, Infinity, capacity);
  report(p, pResult, sum, 0, 0);
  return PlanStatus.OK;
}

// Padded bytes of all buffers, or NaN when one or an alignment is not a whole number of bytes.
function total(p: Plan): f64 {
  let sum: f64 = 0;
  for (let i = 0; i < p.nList; i++) {
    const bytes = getf(p.bytes, i);
    if (!(bytes >= 0) || Math.floor(bytes) != bytes) return NaN;
    if (p.aligns && !alignOk(getf(p.aligns, i))) return NaN;
    sum += pad(bytes, p.align);
  }
  return sum;
}
