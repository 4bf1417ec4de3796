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

import {
  Flag,
  LIFE_BYTES,
  LIFE_ENTRY,
  LIFE_PARENT,
  LIFE_SCRATCH,
  MAX_SRC,
  NODE_BYTES,
  NODE_NE,
  NODE_SRC,
} from "../abi";
import { Node, srcAt } from "../node";
import { fitAlloc, fitFree, fitInit } from "./best_fit";
import { getf, pad, Plan, putf, puti } from "./work";

/** What a pass finds out about one record. */
@unmanaged
class Life {
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

if (offsetof<Life>("entry") != LIFE_ENTRY) ERROR("abi.ts: LIFE_ENTRY");
if (offsetof<Life>("parent") != LIFE_PARENT) ERROR("abi.ts: LIFE_PARENT");
if (offsetof<Life>("scratch") != LIFE_SCRATCH) ERROR("abi.ts: LIFE_SCRATCH");
if (offsetof<Life>() != LIFE_BYTES) ERROR("abi.ts: LIFE_BYTES");


@inline
function nodeAt(p: Plan, i: i32): Node {
  return changetype<Node>(p.records + <usize>i * NODE_BYTES);
}

function indexOf(p: Plan, n: Node): i32 {
  return <i32>((changetype<usize>(n) - p.records) / NODE_BYTES);
}

/** The Life of record i. */
@inline
function lifeAt(p: Plan, i: i32): Life {
  return changetype<Life>(p.lives + <usize>i * LIFE_BYTES);
}

function lifeOf(p: Plan, n: Node): Life {
  return lifeAt(p, indexOf(p, n));
}

/**
 * One pass over the records of the workspace under one set of rules. Leaves the list, offsets by best fit, peak and lower
 * bound, and a Life per record.
 */
export function planLive(pWork: usize, ours: i32): void {
  const p = changetype<Plan>(pWork);
  p.ours = ours;
  reset(p);
  for (let i = 0; i < p.nLeafs; i++) {
    const n = nodeAt(p, i);
    if (!ours || n.flags & Flag.INPUT) alloc(p, n, 0);
  }
  for (let i = p.nLeafs, e = i + p.nNodes; i < e; i++) countUses(p, nodeAt(p, i));
  for (let i = 0; i < p.nLeafs; i++) {
    if (lifeAt(p, i).children == 0) alloc(p, nodeAt(p, i), 0);
  }
  for (let step = 0; step < p.nNodes; step++) walk(p, step);
  p.best = p.top;
  p.proved = p.lowerBound;
}

function reset(p: Plan): void {
  p.nList = 0;
  for (let i = 0, e = p.nLeafs + p.nNodes; i < e; i++) {
    const x = changetype<usize>(lifeAt(p, i));
    memory.fill(x, 0, LIFE_ENTRY);
    memory.fill(x + LIFE_ENTRY, 0xff, LIFE_BYTES - LIFE_ENTRY);
  }
  fitInit(p);
  memory.fill(changetype<usize>(p) + offsetof<Plan>("sum"), 0, 16); // and alive
  memory.fill(changetype<usize>(p), 0, 16); // best and lowerBound
  for (let i = 0, e = p.nLeafs; i < e; i++) countView(p, nodeAt(p, i));
}

/** Writes `offs`, `scratchOffs` and `parent` of the last pass into its records; -1 where nothing was placed. */
export function planWrite(pWork: usize): void {
  const p = changetype<Plan>(pWork);
  for (let i = 0, n = p.nLeafs + p.nNodes; i < n; i++) {
    const r = nodeAt(p, i);
    if (r.buffer != p.buffer) continue;
    const x = lifeAt(p, i);
    r.offs = getf(p.offset, x.entry); // of entry -1 it is -1
    r.scratchOffs = getf(p.offset, x.scratch);
    r.parent = x.parent;
  }
}

function countView(p: Plan, n: Node): void {
  const root = n.viewSrc;
  if (root != null) lifeOf(p, root).views++;
}

// Inputs are given their memory here, before any node has its own.
function countUses(p: Plan, n: Node): void {
  countView(p, n);
  if (n.flags & Flag.INPUT) alloc(p, n, 0);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s == null || s == n) continue;
    lifeOf(p, s).children++;
    if (s.flags & Flag.INPUT) alloc(p, s, 0);
  }
}

// A new list entry, alive from `step` to the end until somebody frees it.
function enter(p: Plan, owner: i32, bytes: f64, step: i32): i32 {
  const e = p.nList++;
  const size = pad(bytes, p.align);
  puti(p.lower, e, step);
  puti(p.upper, e, max(1, p.nNodes));
  puti(p.owner, e, owner);
  putf(p.bytes, e, size);
  putf(p.now, e, size);
  putf(p.offset, e, fitAlloc(p, size));
  p.alive += size;
  p.lowerBound = max(p.lowerBound, p.alive);
  return e;
}

function leave(p: Plan, e: i32, step: i32): void {
  const size = getf(p.now, e);
  puti(p.upper, e, step + 1);
  fitFree(p, getf(p.offset, e), size);
  p.alive -= size;
}

// Has memory of its own that somebody must plan.
function needsPlace(n: Node): bool {
  return (n.flags & Flag.EXTERNAL) == 0 && n.viewSrc == null;
}

// Gives a record memory unless it has some, is a view, or is not ours.
function alloc(p: Plan, n: Node, step: i32): void {
  const x = lifeOf(p, n);
  if (n.buffer != p.buffer || x.entry >= 0 || !needsPlace(n)) return;
  p.sum += pad(n.size, p.align);
  if (n.flags & Flag.INPLACE && takeOver(p, n, x)) return;
  x.entry = enter(p, indexOf(p, n), n.size, step);
  x.held = x.entry;
}

function walk(p: Plan, step: i32): void {
  const i = p.nLeafs + step;
  const n = nodeAt(p, i);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s == null || s == n) continue;
    const root = s.viewSrc;
    alloc(p, root != null ? root : s, step);
  }
  alloc(p, n, step);
  if (n.scratch > 0 && n.buffer == p.buffer) lifeAt(p, i).scratch = enter(p, ~i, n.scratch, step);
  if (step + 1 < p.nNodes && nodeAt(p, i + 1).flags & Flag.BESIDE) return;
  let first = i;
  while (first > p.nLeafs && nodeAt(p, first).flags & Flag.BESIDE) first--;
  for (; first <= i; first++) release(p, first, step);
}

// The node of record i, and those beside it, have run: its scratch is free, and one use of each of its sources is over.
function release(p: Plan, i: i32, step: i32): void {
  const scratch = lifeAt(p, i).scratch;
  if (scratch >= 0) leave(p, scratch, step);
  const n = nodeAt(p, i);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s != null && s != n) used(p, s, step);
  }
}

// One use of s is over.
function used(p: Plan, s: Node, step: i32): void {
  let x = lifeOf(p, s);
  x.children--;
  if (x.children > 0 || x.views > 0 || s.flags & Flag.OUTPUT) return;
  const root = s.viewSrc;
  if (root != null) {
    x = lifeOf(p, root);
    x.views--;
    if (x.views != 0 || x.children != 0 || root.flags & Flag.OUTPUT) return;
  }
  const e = x.held;
  if (e < 0) return;
  x.held = -1;
  leave(p, e, step);
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
function takeOver(p: Plan, n: Node, x: Life): bool {
  const size = pad(n.size, p.align);
  for (let k = 0; k < MAX_SRC; k++) {
    const s = srcAt(n, k);
    if (s == null || s == n || !sameLayout(s, n) || s.flags & Flag.OUTPUT) continue;
    const owner = dying(p, s);
    if (owner == null) continue;
    const y = lifeOf(p, owner);
    const e = y.held;
    if (e < 0 || getf(p.now, e) < size) continue;
    trim(p, e, size);
    y.held = -1;
    x.entry = e;
    x.held = e;
    x.parent = indexOf(p, owner);
    return true;
  }
  return false;
}

// Gives back what entry e has beyond `size`.
function trim(p: Plan, e: i32, size: f64): void {
  const rest = getf(p.now, e) - size;
  fitFree(p, getf(p.offset, e) + size, rest);
  p.alive -= rest;
  putf(p.now, e, size);
}

// The record whose memory is free once this use of s is over, or null.
function dying(p: Plan, s: Node): Node | null {
  const x = lifeOf(p, s);
  if (x.children != 1 || x.views != 0) return null;
  const root = s.viewSrc;
  if (root == null) return s;
  if (!p.ours || s.viewOffs != 0 || root.flags & Flag.OUTPUT) return null;
  const y = lifeOf(p, root);
  return y.views == 1 && y.children == 0 ? root : null;
}
