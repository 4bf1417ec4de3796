// Planning node records: the smaller of two sets of liveness rules, the result written into the records. Offsets count on
// through chunks: offset o lies in chunk floor(o / chunk).

import { PLAN_RESULT_BYTES, PlanStatus } from "../abi";
import { lifeAt, Live, liveBytes, liveInit, livePass, needsPlace, nodeAt } from "./liveness";
import { placeBytes, placeList } from "./place";
import { report } from "./result";
import { alignOk, getf, geti, HEADER_BYTES, pad, Plan, planInit, SIZE_LIMIT } from "./work";

// Tensors and scratches of all buffers that must be placed, at most.
function entriesOf(records: usize, n: i32): i32 {
  let count = 0;
  for (let i = 0; i < n; i++) {
    const r = nodeAt(records, i);
    count += i32(needsPlace(r)) + i32(r.scratch > 0);
  }
  return count;
}

/** Bytes of workspace for planRecords over these `n` records. */
export function planRecordsWorkspace(records: usize, n: i32): f64 {
  const entries = entriesOf(records, n);
  return f64(HEADER_BYTES + liveBytes(n, entries) + placeBytes(entries));
}

/**
 * Plans the tensors of one backend buffer. Writes `offs`, `scratchOffs` and `parent` of every record whose `buffer` is
 * `buffer`; -1 where nothing was placed. In one chunk never larger than ggml's plan for the same records.
 *
 * @param align  bytes, whole; sizes are padded to it
 * @param chunk  bytes, a multiple of `align`; no tensor crosses a multiple of it, none may be larger; Infinity for none
 * @param budget work the search may do, in buffers looked at
 * @param pWork  planRecordsWorkspace() bytes, 16-byte aligned
 * @param pResult PLAN_RESULT_BYTES
 * @returns PlanStatus
 */
export function planRecords(
  records: usize,
  nLeafs: i32,
  nNodes: i32,
  buffer: i32,
  align: f64,
  chunk: f64,
  budget: f64,
  seed: i32,
  pWork: usize,
  pResult: usize,
): i32 {
  const status = check(records, nLeafs, nNodes, buffer, align, chunk, pResult);
  if (status != PlanStatus.OK) return status;
  const p = planInit(pWork, align, budget, seed);
  p.chunk = chunk;
  const l = liveInit(p, records, nLeafs, nNodes, buffer, entriesOf(records, nLeafs + nNodes));
  decide(p, l);
  finish(p, l, pResult);
  return PlanStatus.OK;
}

/** As planRecords, but exactly what ggml does: its liveness, its best fit. For comparison. */
export function planRecordsGgml(
  records: usize,
  nLeafs: i32,
  nNodes: i32,
  buffer: i32,
  align: f64,
  pWork: usize,
  pResult: usize,
): i32 {
  const status = check(records, nLeafs, nNodes, buffer, align, Infinity, pResult);
  if (status != PlanStatus.OK) return status;
  const p = planInit(pWork, align, 0, 0);
  const l = liveInit(p, records, nLeafs, nNodes, buffer, entriesOf(records, nLeafs + nNodes));
  livePass(p, l, false);
  p.best = l.fit.max;
  p.lowerBound = l.peak;
  p.proved = l.peak;
  write(p, l);
  finish(p, l, pResult);
  return PlanStatus.OK;
}

function check(
  records: usize,
  nLeafs: i32,
  nNodes: i32,
  buffer: i32,
  align: f64,
  chunk: f64,
  pResult: usize,
): i32 {
  memory.fill(pResult, 0, PLAN_RESULT_BYTES);
  if (nLeafs < 0 || nNodes < 0 || !alignOk(align) || !(chunk >= align)) return PlanStatus.BAD_COUNT;
  return sizesOk(records, nLeafs + nNodes, buffer, align, chunk) ? PlanStatus.OK : PlanStatus.BAD_SIZE;
}

// In chunks each tensor may be pushed up by its own size.
function sizesOk(records: usize, n: i32, buffer: i32, align: f64, chunk: f64): bool {
  let sum: f64 = 0;
  for (let i = 0; i < n; i++) {
    const r = nodeAt(records, i);
    if (!(r.size >= 0) || !(r.scratch >= 0)) return false;
    const size = needsPlace(r) ? pad(r.size, align) : 0;
    const scratch = pad(r.scratch, align);
    if (r.buffer == buffer && max(size, scratch) > chunk) return false;
    sum += size + scratch;
  }
  return sum < (chunk < Infinity ? SIZE_LIMIT / 2 : SIZE_LIMIT);
}

// Our rules first. ggml's are tried only when their bound promises less than what ours came to.
function decide(p: Plan, l: Live): void {
  livePass(p, l, false);
  const ggmlBound = l.peak;
  livePass(p, l, true);
  solve(p, l);
  write(p, l);
  if (p.best <= ggmlBound) return;
  const peak = p.best;
  const proved = p.proved;
  livePass(p, l, false);
  solve(p, l);
  if (p.best < peak) return write(p, l);
  livePass(p, l, true);
  p.best = peak;
  p.lowerBound = l.peak;
  p.proved = proved;
}

// Best fit has been done by the pass; better is looked for only above the bound. It knows no chunks: what does not end in
// the first one is placed anew.
function solve(p: Plan, l: Live): void {
  p.plain = l.fit.max <= p.chunk;
  p.best = p.plain ? l.fit.max : Infinity;
  p.lowerBound = l.peak;
  p.proved = l.peak;
  const mark = p.top; // there may be a second time, and the workspace is for one
  if (p.best > p.lowerBound) placeList(p, l.peak, 0);
  p.top = mark;
}

function write(p: Plan, l: Live): void {
  for (let i = 0, n = l.nLeafs + l.nNodes; i < n; i++) {
    const r = nodeAt(l.records, i);
    if (r.buffer != l.buffer) continue;
    const x = lifeAt(l, i);
    r.offs = x.entry < 0 ? -1 : getf(p.offset, x.entry);
    r.scratchOffs = x.scratch < 0 ? -1 : getf(p.offset, x.scratch);
    r.parent = x.parent;
  }
}

// The table shows the plan that was kept: offsets come from the records.
function finish(p: Plan, l: Live, pResult: usize): void {
  let sum: f64 = 0;
  let scratch: f64 = 0;
  for (let i = 0, n = l.nLeafs + l.nNodes; i < n; i++) {
    const r = nodeAt(l.records, i);
    if (r.buffer != l.buffer) continue;
    if (needsPlace(r)) sum += pad(r.size, p.align);
    scratch = max(scratch, pad(r.scratch, p.align));
  }
  for (let e = 0; e < p.nList; e++) {
    const i = geti(l.owner, e);
    store<f64>(
      p.offset + ((<usize>e) << 3),
      i < 0 ? nodeAt(l.records, ~i).scratchOffs : nodeAt(l.records, i).offs,
    );
  }
  report(p, pResult, sum, scratch, l.owner);
}

/**
 * Sets the addresses of planned data: own memory at `base` + offset, views at their root's address + view offset.
 * External tensors keep theirs. Call once per backend buffer, after the external addresses are set.
 *
 * @param n    records, leafs and nodes
 * @param base address of backend buffer `buffer`
 */
export function bindRecords(records: usize, n: i32, buffer: i32, base: usize): void {
  for (let i = 0; i < n; i++) {
    const r = nodeAt(records, i);
    if (r.buffer == buffer) {
      if (r.offs >= 0) r.data = base + <usize>r.offs;
      r.scratchData = r.scratchOffs >= 0 ? base + <usize>r.scratchOffs : 0;
    }
    const root = r.viewSrc;
    if (root != null && root.data != 0) r.data = root.data + <usize>r.viewOffs;
  }
}
