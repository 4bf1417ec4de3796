// The planner's workspace: its header, how it is cut up, and typed access to its arrays.
//
// The caller gives one block of planWorkspace() bytes. It starts with a Plan; arrays follow, taken from the front and
// given back in the opposite order by resetting `top`. Nothing lives outside it, so several plans can be made at once.

/** A buffer to place. Buffers are numbered by birth. */
@unmanaged
export class Buffer {
  /** preference: larger is placed first; -1 once placed */
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
export const BUFFER_SHIFT: usize = 5;
export const BUFFER: usize = 1 << BUFFER_SHIFT;

/** Buffer i of the plan. */
@inline
export function bufferAt(p: Plan, i: i32): Buffer {
  return changetype<Buffer>(p.buffers + ((<usize>i) << BUFFER_SHIFT));
}

/** State shared by the stages. Arrays are addresses; an index is a buffer, a section, or what the comment says. */
@unmanaged
export class Plan {
  // Arrays first: near fields make short code.

  // The list as given: nList entries, lifetimes [lower, upper), bytes, offsets. Index "id".
  nList: i32;
  lower: usize; // i32
  upper: usize; // i32
  bytes: usize; // f64
  offset: usize; // f64, the result

  // Per buffer; buffers are numbered by birth.
  id: usize; // i32, index in the list
  buffers: usize; // Buffer
  bestOff: usize; // f64
  loadMet: usize; // f64, log2 of (highest load met / lowerBound)

  // Per section.
  load: usize; // f64, bytes alive
  weight: usize; // f64, trouble seen so far
  maxTree: usize; // f64[2m]

  // Unplaced buffers by birth: see tree.ts.
  nodes: usize;
  leaves: i32;
  stack: usize;

  // The skyline: section -> Segment that begins there, and a heap of nHeap entries.
  segments: usize;
  heap: usize;
  nHeap: i32;

  /** next free byte of the workspace */
  top: usize;
  /** xorshift state, never 0 */
  seed: u32;
  /** buffers with a size and a lifetime */
  n: i32;
  /** sections: maximal sets of buffers alive together */
  m: i32;
  /** buffer whose top was the peak of the last skyline run */
  peakAt: i32;
  align: f64;
  /** no pre-placed buffers, one alignment, one chunk */
  plain: bool;
  /** f64 per list entry, multiples of `align`; 0: all have `align` */
  aligns: usize;
  /** i32, list entries that are pre-placed, by ascending offset; nFixed of them, behind the n others */
  fixed: usize;
  nFixed: i32;
  /** highest end of a pre-placed buffer */
  floor: f64;
  /** no buffer crosses a multiple of it; Infinity: no chunks */
  chunk: f64;
  /** work done so far and the most that may be done, in buffers looked at */
  work: f64;
  budget: f64;
  /** most bytes alive at once: no plan can be smaller */
  lowerBound: f64;
  /** the same or more, by a search that found nothing below */
  proved: f64;
  /** peak of the best plan so far; its offsets are bestOff */
  best: f64;
}

/** Bytes of a header, rounded up. */
export const HEADER_BYTES: usize = (offsetof<Plan>() + 15) & ~15;

/** Sizes must add up to less: every sum and offset is then exact in an f64. */
export const SIZE_LIMIT: f64 = 9007199254740992;

/** Whether `align` is a whole number of at least 1. */
export function alignOk(align: f64): bool {
  return align >= 1 && align < SIZE_LIMIT && Math.floor(align) == align;
}

/** Opens a workspace. */
export function planInit(pWork: usize, align: f64, budget: f64, seed: i32): Plan {
  memory.fill(pWork, 0, HEADER_BYTES);
  const p = changetype<Plan>(pWork);
  p.top = pWork + HEADER_BYTES;
  p.align = align;
  p.budget = budget;
  p.plain = true;
  p.chunk = Infinity;
  setSeed(p, seed);
  return p;
}

/** Takes bytes from the workspace, 8-byte aligned. */
export function take(p: Plan, bytes: usize): usize {
  const at = p.top;
  p.top = at + ((bytes + 7) & ~7);
  return at;
}

/** Sets `count` neighbouring address fields, the first at `pField`, to new arrays of `bytes` each. */
export function lay(p: Plan, pField: usize, count: i32, bytes: usize): void {
  for (let i = 0; i < count; i++) store<usize>(pField + ((<usize>i) << 2), take(p, bytes));
}


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

/** Spreads a seed over the bits of a state that is never 0. */
export function setSeed(p: Plan, seed: i32): void {
  const s = <u32>seed * 2654435761 + 1;
  p.seed = s != 0 ? s : 1;
}

/** Now and then, as `chance` has it, a random number in [0, most); else 0. */
export function some(p: Plan, chance: f64, most: f64): f64 {
  return random(p) < chance ? random(p) * most : 0;
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
