// From node records to lifetimes: who owns memory, from which step to which, and who takes over whose.
//
// A step is a node. A tensor is born at the step that writes it and dies after its last reader; a view keeps its root
// alive; inputs are there from step 0; outputs and results nobody reads stay to the end. Nodes side by side (Flag.BESIDE) give
// back nothing before the last of them has run. Two sets of rules:
//
//   ggml   ggml's own. Every leaf is alive from step 0; a view's memory is never taken over.
//   ours   in place also through a view that covers its root; a leaf without the input flag is born at its first use.
//
// While it walks, the pass runs ggml's best fit, so each pass leaves a complete plan and the least bound of its rules.

import { Flag, MAX_SRC, NODE_BYTES, NODE_NE, NODE_SRC } from "../abi";
import { Node, srcAt } from "../node";
import { Fit, fitAlloc, fitBytes, fitFree, fitInit } from "./best_fit";
import { getf, lay, pad, Plan, putf, puti, take } from "./work";

/** What a pass finds out about one record. */
@unmanaged
export class Life {
  /** uses still to come */
  children: i32;
  /** views of it that are still in use */
  views: i32;
  // From here on -1: none.
  /** list entry its bytes lie in */
  entry: i32;
  /** list entry it owns now: not freed, not taken over */
  held: i32;
  /** record whose memory was taken over */
  parent: i32;
  /** list entry of its scratch */
  scratch: i32;
}

const LIFE: usize = offsetof<Life>();

/** The records under study. */
@unmanaged
export class Live {
  records: usize;
  nLeafs: i32;
  nNodes: i32;
  /** index of the backend buffer planned; tensors elsewhere are not ours */
  buffer: i32;
  /** in place through views, late leafs */
  ours: bool;
  /** a Life per record */
  lives: usize;
  /** per list entry: record, or ~record for a scratch */
  owner: usize;
  /** f64 per list entry: bytes of its present owner; less than the entry's own after a smaller result took over */
  now: usize;
  fit: Fit;
  /** bytes alive now and the most so far */
  alive: f64;
  peak: f64;
}

const PER_ENTRY: usize = 36;

/** Bytes for `n` records with at most `entries` tensors and scratches to place. */
export function liveBytes(n: i32, entries: i32): usize {
  return offsetof<Live>() + 64 + <usize>n * LIFE + <usize>entries * PER_ENTRY + fitBytes(entries);
}


@inline
export function nodeAt(records: usize, i: i32): Node {
  return changetype<Node>(records + <usize>i * NODE_BYTES);
}

function indexOf(l: Live, n: Node): i32 {
  return <i32>((changetype<usize>(n) - l.records) / NODE_BYTES);
}

/** The Life of record i. */
@inline
export function lifeAt(l: Live, i: i32): Life {
  return changetype<Life>(l.lives + <usize>i * LIFE);
}

function lifeOf(l: Live, n: Node): Life {
  return lifeAt(l, indexOf(l, n));
}

/** Has memory of its own that somebody must plan. */
export function needsPlace(n: Node): bool {
  return (n.flags & Flag.EXTERNAL) == 0 && n.viewSrc == null;
}

/** Cuts the arrays out of the workspace. */
export function liveInit(p: Plan, records: usize, nLeafs: i32, nNodes: i32, buffer: i32, entries: i32): Live {
  const l = changetype<Live>(take(p, offsetof<Live>()));
  l.records = records;
  l.nLeafs = nLeafs;
  l.nNodes = nNodes;
  l.buffer = buffer;
  l.lives = take(p, <usize>(nLeafs + nNodes) * LIFE);
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
    const n = nodeAt(l.records, i);
    if (!ours || n.flags & Flag.INPUT) alloc(p, l, n, 0);
  }
  for (let i = l.nLeafs, e = i + l.nNodes; i < e; i++) countUses(p, l, nodeAt(l.records, i));
  for (let i = 0; i < l.nLeafs; i++) {
    if (lifeAt(l, i).children == 0) alloc(p, l, nodeAt(l.records, i), 0);
  }
  for (let step = 0; step < l.nNodes; step++) walk(p, l, step);
}

function reset(p: Plan, l: Live): void {
  p.nList = 0;
  const first = offsetof<Life>("entry");
  for (let i = 0, e = l.nLeafs + l.nNodes; i < e; i++) {
    const x = changetype<usize>(lifeAt(l, i));
    memory.fill(x, 0, first);
    memory.fill(x + first, 0xff, LIFE - first);
  }
  fitInit(changetype<usize>(l.fit));
  l.alive = 0;
  l.peak = 0;
  for (let i = 0, e = l.nLeafs; i < e; i++) countView(l, nodeAt(l.records, i));
}

function countView(l: Live, n: Node): void {
  const root = n.viewSrc;
  if (root != null) lifeOf(l, root).views++;
}

// Inputs are given their memory here, before any node has its own.
function countUses(p: Plan, l: Live, n: Node): void {
  countView(l, n);
  if (n.flags & Flag.INPUT) alloc(p, l, n, 0);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s == null || s == n) continue;
    lifeOf(l, s).children++;
    if (s.flags & Flag.INPUT) alloc(p, l, s, 0);
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

// Gives a record memory unless it has some, is a view, or is not ours.
function alloc(p: Plan, l: Live, n: Node, step: i32): void {
  const x = lifeOf(l, n);
  if (n.buffer != l.buffer || x.entry >= 0 || !needsPlace(n)) return;
  if (n.flags & Flag.INPLACE && takeOver(p, l, n, x)) return;
  x.entry = enter(p, l, indexOf(l, n), n.size, step);
  x.held = x.entry;
}

function walk(p: Plan, l: Live, step: i32): void {
  const i = l.nLeafs + step;
  const n = nodeAt(l.records, i);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s == null || s == n) continue;
    const root = s.viewSrc;
    alloc(p, l, root != null ? root : s, step);
  }
  alloc(p, l, n, step);
  if (n.scratch > 0 && n.buffer == l.buffer) lifeAt(l, i).scratch = enter(p, l, ~i, n.scratch, step);
  if (step + 1 < l.nNodes && nodeAt(l.records, i + 1).flags & Flag.BESIDE) return;
  let first = i;
  while (first > l.nLeafs && nodeAt(l.records, first).flags & Flag.BESIDE) first--;
  for (; first <= i; first++) release(p, l, first, step);
}

// The node of record i, and those beside it, have run: its scratch is free, and one use of each of its sources is over.
function release(p: Plan, l: Live, i: i32, step: i32): void {
  const scratch = lifeAt(l, i).scratch;
  if (scratch >= 0) leave(p, l, scratch, step);
  const n = nodeAt(l.records, i);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s != null && s != n) used(p, l, s, step);
  }
}

// One use of s is over.
function used(p: Plan, l: Live, s: Node, step: i32): void {
  let x = lifeOf(l, s);
  x.children--;
  if (x.children > 0 || x.views > 0 || s.flags & Flag.OUTPUT) return;
  const root = s.viewSrc;
  if (root != null) {
    x = lifeOf(l, root);
    x.views--;
    if (x.views != 0 || x.children != 0 || root.flags & Flag.OUTPUT) return;
  }
  const e = x.held;
  if (e < 0) return;
  x.held = -1;
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
function takeOver(p: Plan, l: Live, n: Node, x: Life): bool {
  const size = pad(n.size, p.align);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s == null || s == n || !sameLayout(s, n) || s.flags & Flag.OUTPUT) continue;
    const owner = dying(l, s);
    if (owner == null) continue;
    const y = lifeOf(l, owner);
    const e = y.held;
    if (e < 0 || getf(l.now, e) < size) continue;
    trim(p, l, e, size);
    y.held = -1;
    x.entry = e;
    x.held = e;
    x.parent = indexOf(l, owner);
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

// The record whose memory is free once this use of s is over, or null.
function dying(l: Live, s: Node): Node | null {
  const x = lifeOf(l, s);
  if (x.children != 1 || x.views != 0) return null;
  const root = s.viewSrc;
  if (root == null) return s;
  if (!l.ours || s.viewOffs != 0 || root.flags & Flag.OUTPUT) return null;
  const y = lifeOf(l, root);
  return y.views == 1 && y.children == 0 ? root : null;
}
