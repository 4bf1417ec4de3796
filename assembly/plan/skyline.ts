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
// A segment is one record, found by its first section; records stand at both ends, too, of endless height. Segments wait in
// a binary heap by (height, first section): an entry has the height and the record's address, which rises with the section.

import { SEGMENT_BYTES } from "../abi";
import { lowestFor } from "./ground";
import { fillTree, findInside, removeBuffer } from "./tree";
import { bufferAt, Plan } from "./work";

/** Sections [left, right), all at one height. */
@unmanaged
class Segment {
  height: f64;
  left: i32;
  right: i32;
  /** place in the heap */
  place: i32;
  /** first buffer born in section `left` or later */
  first: i32;
  /** the one before it */
  prev: Segment;
}

const SEGMENT: usize = SEGMENT_BYTES;


@unmanaged
class Entry {
  height: f64;
  segment: Segment;
}

const ENTRY_SHIFT: usize = 4;

/** The ends of all sections, and the buffers born in each. One record stands before the array. */
export function skyInit(p: Plan): void {
  const m = p.m;
  let b = 0;
  for (let s = -1; s <= m; s++) {
    while (b < p.n && bufferAt(p, b).c0 < s) b++;
    const x = at(p, s);
    x.height = Infinity;
    x.left = s;
    x.first = b;
  }
}

function at(p: Plan, section: i32): Segment {
  return changetype<Segment>(p.segments + <usize>section * SEGMENT);
}


@inline
function entryAt(p: Plan, i: i32): Entry {
  return changetype<Entry>(p.heap + ((<usize>i) << ENTRY_SHIFT));
}

// Whether an entry comes before a segment of height h.
function before(e: Entry, h: f64, x: Segment): bool {
  return e.height < h || (e.height == h && changetype<usize>(e.segment) < changetype<usize>(x));
}

function enter(p: Plan, i: i32, h: f64, x: Segment): void {
  const e = entryAt(p, i);
  e.height = h;
  e.segment = x;
  x.place = i;
}

function siftUp(p: Plan, x: Segment): void {
  const h = x.height;
  let i = x.place;
  while (i > 0) {
    const up = (i - 1) >> 1;
    const e = entryAt(p, up);
    if (before(e, h, x)) break;
    enter(p, i, e.height, e.segment);
    i = up;
  }
  enter(p, i, h, x);
}

function siftDown(p: Plan, x: Segment): void {
  const h = x.height;
  const last = p.nHeap - 1;
  let i = x.place;
  for (let c = 2 * i + 1; c <= last; c = 2 * i + 1) {
    let e = entryAt(p, c);
    const other = entryAt(p, c + 1);
    if (c < last && before(other, e.height, e.segment)) {
      e = other;
      c++;
    }
    if (!before(e, h, x)) break;
    enter(p, i, e.height, e.segment);
    i = c;
  }
  enter(p, i, h, x);
}

function addSegment(p: Plan, l: i32, r: i32, h: f64, prev: Segment): void {
  const x = at(p, l);
  x.height = h;
  x.prev = prev;
  stretch(p, x, r);
  x.place = p.nHeap++;
  siftUp(p, x);
}

// The segment now ends at r.
function stretch(p: Plan, x: Segment, r: i32): void {
  x.right = r;
  at(p, r).prev = x;
}

function dropSegment(p: Plan, x: Segment): void {
  const last = entryAt(p, --p.nHeap).segment;
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
  const left = q.height;
  const right = next.height;
  if (right <= left) {
    end = next.right;
    dropSegment(p, next);
  }
  if (left <= right) {
    dropSegment(p, x);
    stretch(p, q, end);
  } else {
    stretch(p, x, end);
    lift(p, x, right);
  }
}

// Puts buffer i on segment x, or above it where it may not lie there; returns its top.
function put(p: Plan, x: Segment, i: i32): f64 {
  const b = bufferAt(p, i);
  const h = x.height;
  const r = x.right;
  let to = b.c1;
  b.off = lowestFor(p, i, h);
  const top = b.off + b.size;
  const next = at(p, r);
  if (to < r) addSegment(p, to, r, h, at(p, b.c0));
  else if (next.height == top) {
    to = next.right;
    dropSegment(p, next);
  }
  if (b.c0 > x.left) {
    addSegment(p, b.c0, to, top, x);
    x.right = b.c0;
    return top;
  }
  const q = x.prev;
  if (q.height == top) {
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
  addSegment(p, 0, p.m, 0, at(p, -1));
  let peak = p.floor;
  p.peakAt = -1;
  for (let open = p.n; open > 0;) {
    const x = entryAt(p, 0).segment;
    const b = findInside(p, x.first, at(p, x.right).first, x.right);
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
