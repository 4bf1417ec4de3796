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
import { fillTree, findInside, removeBuffer } from "./tree";
import { getf, geti, Plan, putf, take } from "./work";

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
  return <usize>(m + 1) * (offsetof<Segment>() + 4) + 64;
}

/** Cuts the skyline's arrays out of the workspace. */
export function skyInit(p: Plan): void {
  const m = <usize>p.m + 1;
  p.segments = take(p, m * offsetof<Segment>());
  p.heap = take(p, m << 2);
}

function at(p: Plan, section: i32): Segment {
  return changetype<Segment>(p.segments + <usize>section * offsetof<Segment>());
}


@inline
function inHeap(p: Plan, i: i32): Segment {
  return changetype<Segment>(geti(p.heap, i));
}


@inline
function below(a: Segment, b: Segment): bool {
  return a.height < b.height || (a.height == b.height && a.left < b.left);
}


@inline
function setHeap(p: Plan, i: i32, x: Segment): void {
  store<usize>(p.heap + ((<usize>i) << 2), changetype<usize>(x));
  x.place = i;
}

function siftUp(p: Plan, x: Segment): void {
  let i = x.place;
  while (i > 0) {
    const up = (i - 1) >> 1;
    const y = inHeap(p, up);
    if (!below(x, y)) break;
    setHeap(p, i, y);
    i = up;
  }
  setHeap(p, i, x);
}

function siftDown(p: Plan, x: Segment): void {
  const n = p.nHeap;
  let i = x.place;
  for (let c = 2 * i + 1; c < n; c = 2 * i + 1) {
    let y = inHeap(p, c);
    if (c + 1 < n) {
      const z = inHeap(p, c + 1);
      if (below(z, y)) {
        y = z;
        c++;
      }
    }
    if (!below(y, x)) break;
    setHeap(p, i, y);
    i = c;
  }
  setHeap(p, i, x);
}

function addSegment(p: Plan, l: i32, r: i32, h: f64, prev: Segment | null): void {
  const x = at(p, l);
  x.left = l;
  x.height = h;
  x.prev = prev;
  stretch(p, x, r);
  x.place = p.nHeap++;
  siftUp(p, x);
}

// The segment now ends at r.
function stretch(p: Plan, x: Segment, r: i32): void {
  x.right = r;
  if (r < p.m) at(p, r).prev = x;
}

function dropSegment(p: Plan, x: Segment): void {
  const last = inHeap(p, --p.nHeap);
  if (last == x) return;
  last.place = x.place;
  siftDown(p, last);
  siftUp(p, last);
}

// A segment only ever rises.
function lift(p: Plan, x: Segment, h: f64): void {
  x.height = h;
  siftDown(p, x);
}

// Nothing fits into the segment: level it with its lower neighbour.
function raise(p: Plan, x: Segment): void {
  let end = x.right;
  const q = x.prev;
  const next = at(p, end);
  const left = q != null ? q.height : Infinity;
  const right = end < p.m ? next.height : Infinity;
  if (right <= left) {
    end = next.right;
    dropSegment(p, next);
  }
  if (q != null && left <= right) {
    dropSegment(p, x);
    stretch(p, q, end);
  } else {
    stretch(p, x, end);
    lift(p, x, right);
  }
}

// Puts buffer b on segment x, or above it where it may not lie there; returns its top.
function put(p: Plan, x: Segment, b: i32): f64 {
  const h = x.height;
  const r = x.right;
  const from = geti(p.c0, b);
  let to = geti(p.c1, b);
  const low = lowestFor(p, b, h);
  const top = low + getf(p.size, b);
  putf(p.off, b, low);
  if (to < r) addSegment(p, to, r, h, at(p, from));
  else if (r < p.m) {
    const next = at(p, r);
    if (next.height == top) {
      to = next.right;
      dropSegment(p, next);
    }
  }
  if (from > x.left) {
    addSegment(p, from, to, top, x);
    x.right = from;
    return top;
  }
  const q = x.prev;
  if (q != null && q.height == top) {
    dropSegment(p, x);
    stretch(p, q, to);
  } else {
    stretch(p, x, to);
    lift(p, x, top);
  }
  return top;
}

/** One run with the present keys, larger first. Gives up at a peak of `limit`. Returns the peak; p.peakAt made it. */
export function skyline(p: Plan, limit: f64): f64 {
  fillTree(p);
  p.work += f64(p.n);
  p.nHeap = 0;
  addSegment(p, 0, p.m, 0, null);
  let peak = p.floor;
  p.peakAt = -1;
  for (let open = p.n; open > 0;) {
    const x = inHeap(p, 0);
    const b = findInside(p, x.left, x.right);
    if (b < 0) {
      raise(p, x);
      continue;
    }
    removeBuffer(p, b);
    open--;
    const top = put(p, x, b);
    if (top <= peak) continue;
    peak = top;
    p.peakAt = b;
    if (peak >= limit) return peak;
  }
  return peak;
}
