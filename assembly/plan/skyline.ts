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
// A segment is one record, found by its first section. Segments wait in a binary heap by (height, first section).

import { lowestFor } from "./ground";
import { bufferOf, fillTree, findInside, removeSlot, Tree } from "./tree";
import { getf, geti, Plan, putf, take } from "./work";


@unmanaged
export class Sky {
  /** section -> Segment that begins there */
  segments: usize;
  /** addresses of segments */
  heap: usize;
  count: i32;
}

/** Sections [left, right), all at one height. */
@unmanaged
class Segment {
  height: f64;
  left: i32;
  right: i32;
  /** place in the heap */
  place: i32;
  /** the one before it */
  prev: Segment | null;
}

/** Bytes for a skyline over `m` sections. */
export function skyBytes(m: i32): usize {
  return offsetof<Sky>() + <usize>(m + 1) * (offsetof<Segment>() + 4) + 64;
}

/** Cuts the skyline's arrays out of the workspace. */
export function skyInit(p: Plan): void {
  const m = <usize>p.m + 1;
  const s = changetype<Sky>(take(p, offsetof<Sky>()));
  p.sky = changetype<usize>(s);
  s.segments = take(p, m * offsetof<Segment>());
  s.heap = take(p, m << 2);
}

function at(s: Sky, section: i32): Segment {
  return changetype<Segment>(s.segments + <usize>section * offsetof<Segment>());
}


@inline
function inHeap(s: Sky, i: i32): Segment {
  return changetype<Segment>(geti(s.heap, i));
}


@inline
function below(a: Segment, b: Segment): bool {
  return a.height < b.height || (a.height == b.height && a.left < b.left);
}


@inline
function setHeap(s: Sky, i: i32, x: Segment): void {
  store<usize>(s.heap + ((<usize>i) << 2), changetype<usize>(x));
  x.place = i;
}

function siftUp(s: Sky, x: Segment): void {
  let i = x.place;
  while (i > 0) {
    const up = (i - 1) >> 1;
    const y = inHeap(s, up);
    if (!below(x, y)) break;
    setHeap(s, i, y);
    i = up;
  }
  setHeap(s, i, x);
}

function siftDown(s: Sky, x: Segment): void {
  const n = s.count;
  let i = x.place;
  for (let c = 2 * i + 1; c < n; c = 2 * i + 1) {
    let y = inHeap(s, c);
    if (c + 1 < n) {
      const z = inHeap(s, c + 1);
      if (below(z, y)) {
        y = z;
        c++;
      }
    }
    if (!below(y, x)) break;
    setHeap(s, i, y);
    i = c;
  }
  setHeap(s, i, x);
}

function addSegment(p: Plan, s: Sky, l: i32, r: i32, h: f64, prev: Segment | null): void {
  const x = at(s, l);
  x.left = l;
  x.height = h;
  x.prev = prev;
  stretch(p, s, x, r);
  x.place = s.count++;
  siftUp(s, x);
}

// The segment now ends at r.
function stretch(p: Plan, s: Sky, x: Segment, r: i32): void {
  x.right = r;
  if (r < p.m) at(s, r).prev = x;
}

function dropSegment(s: Sky, x: Segment): void {
  const last = inHeap(s, --s.count);
  if (last == x) return;
  last.place = x.place;
  siftDown(s, last);
  siftUp(s, last);
}

// A segment only ever rises.
function lift(s: Sky, x: Segment, h: f64): void {
  x.height = h;
  siftDown(s, x);
}

// Nothing fits into the segment: level it with its lower neighbour.
function raise(p: Plan, s: Sky, x: Segment): void {
  let end = x.right;
  const q = x.prev;
  const next = at(s, end);
  const left = q != null ? q.height : Infinity;
  const right = end < p.m ? next.height : Infinity;
  if (right <= left) {
    end = next.right;
    dropSegment(s, next);
  }
  if (q != null && left <= right) {
    dropSegment(s, x);
    stretch(p, s, q, end);
  } else {
    stretch(p, s, x, end);
    lift(s, x, right);
  }
}

// Puts buffer b on segment x, or above it where it may not lie there; returns its top.
function put(p: Plan, s: Sky, x: Segment, b: i32): f64 {
  const h = x.height;
  const r = x.right;
  const from = geti(p.c0, b);
  let to = geti(p.c1, b);
  const low = lowestFor(p, b, h);
  const top = low + getf(p.size, b);
  putf(p.off, b, low);
  if (to < r) addSegment(p, s, to, r, h, at(s, from));
  else if (r < p.m) {
    const next = at(s, r);
    if (next.height == top) {
      to = next.right;
      dropSegment(s, next);
    }
  }
  if (from > x.left) {
    addSegment(p, s, from, to, top, x);
    x.right = from;
    return top;
  }
  const q = x.prev;
  if (q != null && q.height == top) {
    dropSegment(s, x);
    stretch(p, s, q, to);
  } else {
    stretch(p, s, x, to);
    lift(s, x, top);
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
  addSegment(p, s, 0, p.m, 0, null);
  let peak = p.floor;
  p.peakAt = -1;
  for (let open = p.n; open > 0;) {
    const x = inHeap(s, 0);
    const slot = findInside(p, t, x.left, x.right);
    if (slot < 0) {
      raise(p, s, x);
      continue;
    }
    const b = bufferOf(t, slot);
    removeSlot(t, slot);
    open--;
    const top = put(p, s, x, b);
    if (top <= peak) continue;
    peak = top;
    p.peakAt = b;
    if (peak >= limit) return peak;
  }
  return peak;
}
