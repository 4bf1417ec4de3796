// From node records to lifetimes: who owns memory, from which step to which, and who takes over whose.
//
// A step is a node. A tensor is born at the step that writes it and dies after its last reader; a view keeps its root
// alive; inputs are there from step 0; outputs and results nobody reads stay to the end. Two sets of rules:
//
//   ggml   ggml's own. Every leaf is alive from step 0; a view's memory is never taken over.
//   ours   in place also through a view that covers its root; a leaf without the input flag is born at its first use.
//
// While it walks, the pass runs ggml's best fit, so each pass leaves a complete plan and the least bound of its rules.

import { Flag, MAX_SRC, NODE_BYTES, NODE_NE, NODE_SRC } from "../abi";
import { Node, srcAt } from "../node";
import { Fit, fitAlloc, fitBytes, fitFree, fitInit } from "./best_fit";
import { getf, geti, lay, pad, Plan, putf, puti, take } from "./work";

/** The records under study and what the pass finds out about them. Arrays are i32 per record unless said otherwise. */
@unmanaged
export class Live {
  records: usize;
  nLeafs: i32;
  nNodes: i32;
  /** index of the backend buffer planned; tensors elsewhere are not ours */
  buffer: i32;
  /** in place through views, late leafs */
  ours: bool;
  /** uses still to come */
  children: usize;
  /** views of it that are still in use */
  views: usize;
  /** list entry its bytes lie in, or -1 */
  entry: usize;
  /** list entry it owns now, or -1: freed, taken over, or never had */
  held: usize;
  /** record whose memory was taken over, or -1 */
  parent: usize;
  /** list entry of its scratch, or -1 */
  scratch: usize;
  /** per list entry: record, or ~record for a scratch */
  owner: usize;
  /** f64 per list entry: bytes of its present owner; less than the entry's own after a smaller result took over */
  now: usize;
  fit: Fit;
  /** bytes alive now and the most so far */
  alive: f64;
  peak: f64;
}

const PER_RECORD: usize = 24;
const PER_ENTRY: usize = 36;

/** Bytes for `n` records with at most `entries` tensors and scratches to place. */
export function liveBytes(n: i32, entries: i32): usize {
  return offsetof<Live>() + 64 + <usize>n * PER_RECORD + <usize>entries * PER_ENTRY + fitBytes(entries);
}


@inline
export function nodeAt(records: usize, i: i32): Node {
  return changetype<Node>(records + <usize>i * NODE_BYTES);
}


@inline
function indexOf(l: Live, n: Node): i32 {
  return <i32>((changetype<usize>(n) - l.records) / NODE_BYTES);
}

/** Has memory of its own that somebody must plan. */
export function needsPlace(n: Node): bool {
  return (n.flags & Flag.EXTERNAL) == 0 && n.viewSrc == null;
}

/** Cuts the arrays out of the workspace. */
export function liveInit(p: Plan, records: usize, nLeafs: i32, nNodes: i32, buffer: i32, entries: i32): Live {
  const n = (<usize>(nLeafs + nNodes)) << 2;
  const l = changetype<Live>(take(p, offsetof<Live>()));
  l.records = records;
  l.nLeafs = nLeafs;
  l.nNodes = nNodes;
  l.buffer = buffer;
  lay(p, changetype<usize>(l) + offsetof<Live>("children"), 6, n); // children .. scratch
  const count = <usize>entries;
  lay(p, changetype<usize>(p) + offsetof<Plan>("lower"), 2, count << 2); // lower, upper
  lay(p, changetype<usize>(p) + offsetof<Plan>("bytes"), 2, count << 3); // bytes, offset
  l.owner = take(p, count << 2);
  l.now = take(p, count << 3);
  l.fit = fitInit(take(p, fitBytes(entries)));
  return l;
}

/** One pass under one set of rules. Leaves the list in the plan, offsets by best fit; l.fit.max and l.peak. */
export function livePass(p: Plan, l: Live, ours: bool): void {
  l.ours = ours;
  reset(p, l);
  for (let i = 0; i < l.nLeafs; i++) {
    if (!ours || nodeAt(l.records, i).flags & Flag.INPUT) alloc(p, l, i, 0);
  }
  for (let i = l.nLeafs, e = i + l.nNodes; i < e; i++) countUses(p, l, i);
  for (let i = 0; i < l.nLeafs; i++) {
    if (geti(l.children, i) == 0) alloc(p, l, i, 0);
  }
  for (let step = 0; step < l.nNodes; step++) walk(p, l, step);
}

function reset(p: Plan, l: Live): void {
  const n = (<usize>(l.nLeafs + l.nNodes)) << 2;
  p.nList = 0;
  memory.fill(l.children, 0, n);
  memory.fill(l.views, 0, n);
  memory.fill(l.entry, 0xff, n);
  memory.fill(l.held, 0xff, n);
  memory.fill(l.parent, 0xff, n);
  memory.fill(l.scratch, 0xff, n);
  fitInit(changetype<usize>(l.fit));
  l.alive = 0;
  l.peak = 0;
  for (let i = 0, e = l.nLeafs; i < e; i++) countView(l, nodeAt(l.records, i));
}


@inline
function add(a: usize, i: i32, k: i32): i32 {
  const v = geti(a, i) + k;
  puti(a, i, v);
  return v;
}

function countView(l: Live, n: Node): void {
  const root = n.viewSrc;
  if (root != null) add(l.views, indexOf(l, root), 1);
}

// Inputs are given their memory here, before any node has its own.
function countUses(p: Plan, l: Live, i: i32): void {
  const n = nodeAt(l.records, i);
  countView(l, n);
  if (n.flags & Flag.INPUT) alloc(p, l, i, 0);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s == null || s == n) continue;
    const j = indexOf(l, s);
    add(l.children, j, 1);
    if (s.flags & Flag.INPUT) alloc(p, l, j, 0);
  }
}

// A new list entry, alive from `step` to the end until somebody frees it.
function enter(p: Plan, l: Live, owner: i32, bytes: f64, step: i32): i32 {
  const e = p.nList++;
  const size = pad(bytes, p.align);
  puti(p.lower, e, step);
  puti(p.upper, e, max(1, l.nNodes));
  puti(l.owner, e, owner);
  putf(p.bytes, e, size);
  putf(l.now, e, size);
  putf(p.offset, e, fitAlloc(l.fit, size));
  l.alive += size;
  l.peak = max(l.peak, l.alive);
  return e;
}

function leave(p: Plan, l: Live, e: i32, step: i32): void {
  const size = getf(l.now, e);
  puti(p.upper, e, step + 1);
  fitFree(l.fit, getf(p.offset, e), size);
  l.alive -= size;
}

// Gives record i memory unless it has some, is a view, or is not ours.
function alloc(p: Plan, l: Live, i: i32, step: i32): void {
  const n = nodeAt(l.records, i);
  if (n.buffer != l.buffer || !needsPlace(n) || geti(l.entry, i) >= 0) return;
  if (n.flags & Flag.INPLACE && takeOver(p, l, n, i)) return;
  const e = enter(p, l, i, n.size, step);
  puti(l.entry, i, e);
  puti(l.held, i, e);
}

function walk(p: Plan, l: Live, step: i32): void {
  const i = l.nLeafs + step;
  const n = nodeAt(l.records, i);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s == null || s == n) continue;
    const root = s.viewSrc;
    alloc(p, l, indexOf(l, root != null ? root : s), step);
  }
  alloc(p, l, i, step);
  if (n.scratch > 0 && n.buffer == l.buffer) {
    const e = enter(p, l, ~i, n.scratch, step);
    puti(l.scratch, i, e);
    leave(p, l, e, step);
  }
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s != null && s != n) used(p, l, s, step);
  }
}

// One use of s is over.
function used(p: Plan, l: Live, s: Node, step: i32): void {
  const i = indexOf(l, s);
  if (add(l.children, i, -1) > 0 || geti(l.views, i) > 0 || s.flags & Flag.OUTPUT) return;
  const root = s.viewSrc;
  if (root == null) return release(p, l, i, step);
  const r = indexOf(l, root);
  if (add(l.views, r, -1) == 0 && geti(l.children, r) == 0 && !(root.flags & Flag.OUTPUT))
    release(p, l, r, step);
}

function release(p: Plan, l: Live, i: i32, step: i32): void {
  const e = geti(l.held, i);
  if (e < 0) return;
  puti(l.held, i, -1);
  leave(p, l, e, step);
}

// Type, ne and nb alike; ne and nb are neighbours in the record.
function sameLayout(a: Node, b: Node): bool {
  const p = changetype<usize>(a);
  const q = changetype<usize>(b);
  for (let at = NODE_NE; at < NODE_SRC; at += 8) {
    if (load<u64>(p + at) != load<u64>(q + at)) return false;
  }
  return a.type == b.type;
}

// In place: the first source that dies here, lies as the result will, and whose memory is ours.
function takeOver(p: Plan, l: Live, n: Node, i: i32): bool {
  const size = pad(n.size, p.align);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s == null || s == n || !sameLayout(s, n) || s.flags & Flag.OUTPUT) continue;
    const j = dying(l, s);
    if (j < 0) continue;
    const e = geti(l.held, j);
    if (e < 0 || getf(l.now, e) < size) continue;
    trim(p, l, e, size);
    puti(l.held, j, -1);
    puti(l.entry, i, e);
    puti(l.held, i, e);
    puti(l.parent, i, j);
    return true;
  }
  return false;
}

// Gives back what entry e has beyond `size`.
function trim(p: Plan, l: Live, e: i32, size: f64): void {
  const rest = getf(l.now, e) - size;
  fitFree(l.fit, getf(p.offset, e) + size, rest);
  l.alive -= rest;
  putf(l.now, e, size);
}

// The record whose memory is free once this use of s is over, or -1.
function dying(l: Live, s: Node): i32 {
  const j = indexOf(l, s);
  if (geti(l.children, j) != 1 || geti(l.views, j) != 0) return -1;
  const root = s.viewSrc;
  if (root == null) return j;
  if (!l.ours || s.viewOffs != 0 || root.flags & Flag.OUTPUT) return -1;
  const r = indexOf(l, root);
  return geti(l.views, r) == 1 && geti(l.children, r) == 0 ? r : -1;
}
