// Skyline placement: fill the lowest valley with the preferred buffer that fits inside it.
//
// The top of what is placed is a row of segments over sections, each with a height. Take the lowest, leftmost one; put
// there the unplaced buffer with the highest key whose sections lie inside it; it splits the segment in up to three, and
// equal heights merge. If none fits, raise the valley to its lower neighbour:
//
//        ___                 ___                  ___
//   ____|   |____    ->  _##|   |____    ->  ____|   |____     every raise removes a segment, so the number of steps is
//   valley                ^ placed           ^^^^ raised       linear in the number of buffers
//
// A segment is known by its first section. Segments wait in a binary heap by (height, first section).

import { lowestFor } from "./ground";
import { bufferOf, fillTree, findInside, removeSlot, Tree } from "./tree";
import { getf, geti, lay, Plan, putf, puti, take } from "./work";


@unmanaged
export class Sky {
  /** segment -> one past its last section */
  right: usize;
  /** segment -> the one before it, or -1 */
  prev: usize;
  heap: usize;
  /** segment -> place in the heap */
  place: usize;
  /** segment -> height f64 */
  height: usize;
  count: i32;
}

/** Bytes for a skyline over `m` sections. */
export function skyBytes(m: i32): usize {
  return offsetof<Sky>() + <usize>(m + 1) * 24 + 64;
}

/** Cuts the skyline's arrays out of the workspace. */
export function skyInit(p: Plan): void {
  const m = <usize>p.m + 1;
  const s = changetype<Sky>(take(p, offsetof<Sky>()));
  p.sky = changetype<usize>(s);
  lay(p, p.sky + offsetof<Sky>("right"), 4, m << 2); // right, prev, heap, place
  s.height = take(p, m << 3);
}


@inline
function below(s: Sky, a: i32, b: i32): bool {
  const x = getf(s.height, a);
  const y = getf(s.height, b);
  return x < y || (x == y && a < b);
}


@inline
function setHeap(s: Sky, i: i32, segment: i32): void {
  puti(s.heap, i, segment);
  puti(s.place, segment, i);
}

function siftUp(s: Sky, i: i32): void {
  const x = geti(s.heap, i);
  while (i > 0) {
    const up = (i - 1) >> 1;
    if (!below(s, x, geti(s.heap, up))) break;
    setHeap(s, i, geti(s.heap, up));
    i = up;
  }
  setHeap(s, i, x);
}

function siftDown(s: Sky, i: i32): void {
  const n = s.count;
  const x = geti(s.heap, i);
  for (let c = 2 * i + 1; c < n; c = 2 * i + 1) {
    if (c + 1 < n && below(s, geti(s.heap, c + 1), geti(s.heap, c))) c++;
    if (!below(s, geti(s.heap, c), x)) break;
    setHeap(s, i, geti(s.heap, c));
    i = c;
  }
  setHeap(s, i, x);
}

function addSegment(p: Plan, s: Sky, l: i32, r: i32, h: f64, prev: i32): void {
  putf(s.height, l, h);
  puti(s.prev, l, prev);
  stretch(p, s, l, r);
  puti(s.heap, s.count, l);
  siftUp(s, s.count++);
}

// Segment l now ends at r.
function stretch(p: Plan, s: Sky, l: i32, r: i32): void {
  puti(s.right, l, r);
  if (r < p.m) puti(s.prev, r, l);
}

function dropSegment(s: Sky, l: i32): void {
  const i = geti(s.place, l);
  const x = geti(s.heap, --s.count);
  if (x == l) return;
  puti(s.heap, i, x);
  puti(s.place, x, i);
  siftDown(s, i);
  siftUp(s, geti(s.place, x));
}

// A segment only ever rises.
function lift(s: Sky, l: i32, h: f64): void {
  putf(s.height, l, h);
  siftDown(s, geti(s.place, l));
}

// Nothing fits into segment l: level it with its lower neighbour.
function raise(p: Plan, s: Sky, l: i32): void {
  const r = geti(s.right, l);
  const q = geti(s.prev, l);
  const left = q >= 0 ? getf(s.height, q) : Infinity;
  const right = r < p.m ? getf(s.height, r) : Infinity;
  let end = r;
  if (right <= left) {
    end = geti(s.right, r);
    dropSegment(s, r);
  }
  if (left <= right) {
    dropSegment(s, l);
    stretch(p, s, q, end);
  } else {
    stretch(p, s, l, end);
    lift(s, l, right);
  }
}

// Puts buffer b on segment l, or above it where it may not lie there; returns its top.
function put(p: Plan, s: Sky, l: i32, b: i32): f64 {
  const h = getf(s.height, l);
  const r = geti(s.right, l);
  const from = geti(p.c0, b);
  let to = geti(p.c1, b);
  const at = lowestFor(p, b, h);
  const top = at + getf(p.size, b);
  putf(p.off, b, at);
  if (to < r) addSegment(p, s, to, r, h, from);
  else if (r < p.m && getf(s.height, r) == top) {
    to = geti(s.right, r);
    dropSegment(s, r);
  }
  if (from > l) {
    addSegment(p, s, from, to, top, l);
    puti(s.right, l, from);
    return top;
  }
  const q = geti(s.prev, l);
  if (q >= 0 && getf(s.height, q) == top) {
    dropSegment(s, l);
    stretch(p, s, q, to);
  } else {
    stretch(p, s, l, to);
    lift(s, l, top);
  }
  return top;
}

/** One run with the present keys, larger first. Gives up at a peak of `limit`. Returns the peak; p.peakAt made it. */
export function skyline(p: Plan, limit: f64): f64 {
  const t = changetype<Tree>(p.tree);
  const s = changetype<Sky>(p.sky);
  fillTree(p, t);
  p.work += f64(p.n);
  s.count = 0;
  addSegment(p, s, 0, p.m, 0, -1);
  let peak = p.floor;
  p.peakAt = -1;
  for (let open = p.n; open > 0;) {
    const l = geti(s.heap, 0);
    const slot = findInside(p, t, l, geti(s.right, l));
    if (slot < 0) {
      raise(p, s, l);
      continue;
    }
    const b = bufferOf(t, slot);
    removeSlot(t, slot);
    open--;
    const top = put(p, s, l, b);
    if (top <= peak) continue;
    peak = top;
    p.peakAt = b;
    if (peak >= limit) return peak;
  }
  return peak;
}
