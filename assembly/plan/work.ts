// The planner's workspace: its header, and typed access to its arrays.
//
// The host lays the workspace out (abi.ts: PLAN_*, PlanArray) and has checked what it asks for. Nothing lives outside it,
// so several plans can be made at once.

import {
  BUFFER_BYTES,
  PLAN_ALIGN,
  PLAN_ARRAYS,
  PLAN_BUDGET,
  PLAN_BUFFER,
  PLAN_CAPACITY,
  PLAN_CHUNK,
  PLAN_COUNT,
  PLAN_FIXED_COUNT,
  PLAN_FLOOR,
  PLAN_FREE_COUNT,
  PLAN_HEADER_BYTES,
  PLAN_LEAFS,
  PLAN_LEAVES,
  PLAN_LOWER_BOUND,
  PLAN_NODES,
  PLAN_PEAK,
  PLAN_PLAIN,
  PLAN_PROVED,
  PLAN_RECORDS,
  PLAN_SEED,
  PLAN_SUM,
  PLAN_UNIT,
  PLAN_WORK,
  PlanArray,
} from "../abi";

/** A buffer to place. Buffers are numbered by birth. */
@unmanaged
export class Buffer {
  /** preference: larger is placed first; 0 once placed */
  key: f64;
  /** padded to the alignment */
  size: f64;
  /** offset in the run under way */
  off: f64;
  /** first section, and one past the last */
  c0: i32;
  c1: i32;
}

/** log2 of a buffer's bytes, and those bytes. */
export const BUFFER_SHIFT = 5;
export const BUFFER: usize = BUFFER_BYTES;

if (1 << BUFFER_SHIFT != BUFFER_BYTES) ERROR("abi.ts: BUFFER_BYTES");

/** Buffer i of the plan. */
@inline
export function bufferAt(p: Plan, i: i32): Buffer {
  return changetype<Buffer>(p.buffers + ((<usize>i) << BUFFER_SHIFT));
}

/** State shared by the stages, the fields of abi.ts first. What is used most stands first: near fields make short code. */
@unmanaged
export class Plan {
  best: f64;
  lowerBound: f64;
  work: f64;
  proved: f64;
  align: f64;
  budget: f64;
  chunk: f64;
  nList: i32;
  plain: i32;
  nFixed: i32;
  records: usize;
  nLeafs: i32;
  nNodes: i32;
  buffer: i32;
  /** xorshift state */
  seed: u32;
  /** buffers to place; the pre-placed stand behind */
  n: i32;
  /** sections: maximal sets of buffers alive together */
  m: i32;

  // Arrays: see PlanArray.
  id: usize;
  buffers: usize;
  offset: usize;
  weight: usize;
  lower: usize;
  upper: usize;
  bytes: usize;
  lives: usize;
  aligns: usize;
  now: usize;
  owner: usize;
  bestOff: usize;
  loadMet: usize; // log2 of (highest load met / lowerBound)
  load: usize; // bytes alive
  maxTree: usize;
  nodes: usize;
  stack: usize;
  segments: usize;
  heap: usize;
  sortA: usize;
  sortB: usize;
  sortC: usize;
  counts: usize;
  blocks: usize;
  search: usize;

  // Here end the arrays of all stages; those of the search follow (search_state.ts).
  items: usize;
  sections: usize;
  dirty: usize;
  open: usize;
  trail: usize;
  lists: usize;
  frames: usize;
  rows: usize;

  leaves: i32;
  nHeap: i32;
  /** buffer whose top was the peak of the last skyline run */
  peakAt: i32;
  /** i32: buffers by death */
  byUpper: usize;
  /** end of the free blocks of best fit */
  end: usize;
  /** liveness: in place through views, late leafs */
  ours: i32;
  capacity: f64;
  floor: f64;
  unit: f64;
  sum: f64;
  /** liveness: bytes alive now */
  alive: f64;
  /** best fit: highest end so far, blocks looked at */
  top: f64;
  seen: f64;

  // Weights of the logs in a preference: keys.ts and search.ts.
  wSize: f64;
  wLoad: f64;
  wSections: f64;
  wLifetime: f64;
  wTrouble: f64;
  wNoise: f64;
}

// The layout of abi.ts, proved while compiling; no code is emitted.
if (offsetof<Plan>("best") != PLAN_PEAK) ERROR("abi.ts: PLAN_PEAK");
if (offsetof<Plan>("lowerBound") != PLAN_LOWER_BOUND) ERROR("abi.ts: PLAN_LOWER_BOUND");
if (offsetof<Plan>("work") != PLAN_WORK) ERROR("abi.ts: PLAN_WORK");
if (offsetof<Plan>("proved") != PLAN_PROVED) ERROR("abi.ts: PLAN_PROVED");
if (offsetof<Plan>("align") != PLAN_ALIGN) ERROR("abi.ts: PLAN_ALIGN");
if (offsetof<Plan>("budget") != PLAN_BUDGET) ERROR("abi.ts: PLAN_BUDGET");
if (offsetof<Plan>("chunk") != PLAN_CHUNK) ERROR("abi.ts: PLAN_CHUNK");
if (offsetof<Plan>("nList") != PLAN_COUNT) ERROR("abi.ts: PLAN_COUNT");
if (offsetof<Plan>("plain") != PLAN_PLAIN) ERROR("abi.ts: PLAN_PLAIN");
if (offsetof<Plan>("nFixed") != PLAN_FIXED_COUNT) ERROR("abi.ts: PLAN_FIXED_COUNT");
if (offsetof<Plan>("records") != PLAN_RECORDS) ERROR("abi.ts: PLAN_RECORDS");
if (offsetof<Plan>("nLeafs") != PLAN_LEAFS) ERROR("abi.ts: PLAN_LEAFS");
if (offsetof<Plan>("nNodes") != PLAN_NODES) ERROR("abi.ts: PLAN_NODES");
if (offsetof<Plan>("buffer") != PLAN_BUFFER) ERROR("abi.ts: PLAN_BUFFER");
if (offsetof<Plan>("seed") != PLAN_SEED) ERROR("abi.ts: PLAN_SEED");
if (offsetof<Plan>("n") != PLAN_FREE_COUNT) ERROR("abi.ts: PLAN_FREE_COUNT");
if (offsetof<Plan>("leaves") != PLAN_LEAVES) ERROR("abi.ts: PLAN_LEAVES");
if (offsetof<Plan>("capacity") != PLAN_CAPACITY) ERROR("abi.ts: PLAN_CAPACITY");
if (offsetof<Plan>("floor") != PLAN_FLOOR) ERROR("abi.ts: PLAN_FLOOR");
if (offsetof<Plan>("sum") != PLAN_SUM) ERROR("abi.ts: PLAN_SUM");
if (offsetof<Plan>("unit") != PLAN_UNIT) ERROR("abi.ts: PLAN_UNIT");
if (offsetof<Plan>() != PLAN_HEADER_BYTES) ERROR("abi.ts: PLAN_HEADER_BYTES");
// Arrays: the first, the last, and some between; a field more or less would move them.
if (offsetof<Plan>("id") != PLAN_ARRAYS) ERROR("abi.ts: PLAN_ARRAYS");
if (offsetof<Plan>("lives") != PLAN_ARRAYS + 4 * PlanArray.LIVES) ERROR("abi.ts: PlanArray.LIVES");
if (offsetof<Plan>("owner") != PLAN_ARRAYS + 4 * PlanArray.OWNER) ERROR("abi.ts: PlanArray.OWNER");
if (offsetof<Plan>("nodes") != PLAN_ARRAYS + 4 * PlanArray.TREE) ERROR("abi.ts: PlanArray.TREE");
if (offsetof<Plan>("heap") != PLAN_ARRAYS + 4 * PlanArray.HEAP) ERROR("abi.ts: PlanArray.HEAP");
if (offsetof<Plan>("items") != PLAN_ARRAYS + 4 * PlanArray.ITEMS) ERROR("abi.ts: PlanArray.ITEMS");
if (offsetof<Plan>("leaves") != PLAN_ARRAYS + 4 * PlanArray.LENGTH) ERROR("abi.ts: PlanArray.LENGTH");


@inline
export function geti(a: usize, i: i32): i32 {
  return load<i32>(a + ((<usize>i) << 2));
}


@inline
export function puti(a: usize, i: i32, v: i32): void {
  store<i32>(a + ((<usize>i) << 2), v);
}


@inline
export function getf(a: usize, i: i32): f64 {
  return load<f64>(a + ((<usize>i) << 3));
}


@inline
export function putf(a: usize, i: i32, v: f64): void {
  store<f64>(a + ((<usize>i) << 3), v);
}

/** Smallest multiple of `align` that holds `bytes`. Exact: both are integers below 2^53. */
export function pad(bytes: f64, align: f64): f64 {
  return Math.ceil(bytes / align) * align;
}

/** Monotone, piecewise linear log2 from the bits of x > 0: the same on every engine, unlike Math.log. */
export function lg(x: f64): f64 {
  return f64(reinterpret<i64>(x) - 0x3ff0000000000000) * 2.220446049250313e-16;
}

/** v, and w times the log of x; a weight of 0 counts for nothing. */
export function weigh(v: f64, w: f64, x: f64): f64 {
  return w > 0 ? v + w * lg(x) : v;
}

/** How long buffer i lives. */
export function lifeOf(p: Plan, i: i32): f64 {
  const id = geti(p.id, i);
  return f64(geti(p.upper, id)) - f64(geti(p.lower, id));
}

/** In `chance` of ten times a random number in [0, most); else 0. */
export function some(p: Plan, chance: i32, most: i32): f64 {
  return random(p) * 10 < chance ? random(p) * most : 0;
}

/** Next random number in [0, 1). */
export function random(p: Plan): f64 {
  let s = p.seed;
  s ^= s << 13;
  s ^= s >> 17;
  s ^= s << 5;
  p.seed = s;
  return f64(s) * 2.3283064365386963e-10;
}
