// "Which unplaced buffer lies inside sections [l, r) and has the highest key?" A kd-tree over (c0, c1).
//
// Implicit: node k has children 2k and 2k + 1, the last level are leaves of at most 8 buffers. Cut by c0 and c1 in turn.
//
//   node  0 best key f64 | 8 least c0 | 12 greatest c0 | 16 least c1 | 20 first slot | 24
//   slot  0 key f64, -1 when placed | 8 c0 | 12 c1 | 16          in tree order, so that a leaf is one stretch of memory

import { getf, geti, Plan, puti, take } from "./work";

const LEAF = 8;
const STACK_BYTES: usize = 512;


@unmanaged
class Node {
  best: f64;
  minC0: i32;
  maxC0: i32;
  minC1: i32;
  slot: i32;
}


@unmanaged
class Slot {
  key: f64;
  c0: i32;
  c1: i32;
}


@unmanaged
export class Tree {
  leaves: i32;
  nodes: usize;
  slots: usize;
  /** slot -> buffer */
  perm: usize;
  /** buffer -> leaf node */
  leafOf: usize;
  stack: usize;
}

function leavesFor(n: i32): i32 {
  let leaves = 1;
  while (leaves * LEAF < n) leaves *= 2;
  return leaves;
}

/** Bytes for a tree over `n` buffers. */
export function treeBytes(n: i32): usize {
  return (
    offsetof<Tree>() + STACK_BYTES + <usize>n * 24 + <usize>(2 * leavesFor(n) + 1) * offsetof<Node>() + 64
  );
}


@inline
function nodeOf(t: Tree, k: i32): Node {
  return changetype<Node>(t.nodes + <usize>k * offsetof<Node>());
}


@inline
function slotOf(t: Tree, i: i32): Slot {
  return changetype<Slot>(t.slots + <usize>i * offsetof<Slot>());
}

/** Buffer in a slot. */
@inline
export function bufferOf(t: Tree, slot: i32): i32 {
  return geti(t.perm, slot);
}

/** Builds the tree over the sections of all buffers; keys come later. */
export function buildTree(p: Plan): void {
  const n = p.n;
  const t = changetype<Tree>(take(p, offsetof<Tree>()));
  p.tree = changetype<usize>(t);
  t.leaves = leavesFor(n);
  t.nodes = take(p, <usize>(2 * t.leaves + 1) * offsetof<Node>());
  t.slots = take(p, <usize>n * offsetof<Slot>());
  t.perm = take(p, (<usize>n) << 2);
  t.leafOf = take(p, (<usize>n) << 2);
  t.stack = take(p, STACK_BYTES);
  for (let i = 0; i < n; i++) puti(t.perm, i, i);
  build(p, t, 1, 0, n, false);
  nodeOf(t, 2 * t.leaves).slot = n;
  for (let i = 0; i < n; i++) {
    const b = geti(t.perm, i);
    slotOf(t, i).c0 = geti(p.c0, b);
    slotOf(t, i).c1 = geti(p.c1, b);
  }
}

// Depth is log2 of the leaves.
function build(p: Plan, t: Tree, k: i32, l: i32, r: i32, byC1: bool): void {
  const node = nodeOf(t, k);
  bound(p, t, node, l, r);
  if (k >= t.leaves) {
    for (let i = l; i < r; i++) puti(t.leafOf, geti(t.perm, i), k);
    return;
  }
  const mid = (l + r) >> 1;
  select(t.perm, l, r - 1, mid, byC1 ? p.c1 : p.c0);
  build(p, t, 2 * k, l, mid, !byC1);
  build(p, t, 2 * k + 1, mid, r, !byC1);
}

function bound(p: Plan, t: Tree, node: Node, l: i32, r: i32): void {
  let minC0 = i32.MAX_VALUE;
  let maxC0 = -1;
  let minC1 = i32.MAX_VALUE;
  for (let i = l; i < r; i++) {
    const b = geti(t.perm, i);
    minC0 = min(minC0, geti(p.c0, b));
    maxC0 = max(maxC0, geti(p.c0, b));
    minC1 = min(minC1, geti(p.c1, b));
  }
  node.minC0 = minC0;
  node.maxC0 = maxC0;
  node.minC1 = minC1;
  node.slot = l;
}

// Puts the k-th smallest of perm[l..r] at k, smaller ones before it.
function select(perm: usize, l: i32, r: i32, k: i32, by: usize): void {
  while (l < r) {
    const pivot = geti(by, geti(perm, (l + r) >> 1));
    let i = l;
    let j = r;
    while (i <= j) {
      while (geti(by, geti(perm, i)) < pivot) i++;
      while (geti(by, geti(perm, j)) > pivot) j--;
      if (i > j) break;
      const t = geti(perm, i);
      puti(perm, i++, geti(perm, j));
      puti(perm, j--, t);
    }
    if (k <= j) r = j;
    else if (k >= i) l = i;
    else return;
  }
}

function leafBest(t: Tree, k: i32): f64 {
  let best: f64 = -1;
  for (let i = nodeOf(t, k).slot, e = nodeOf(t, k + 1).slot; i < e; i++) best = max(best, slotOf(t, i).key);
  return best;
}

/** Takes the keys of all buffers: everything is unplaced again. Keys are positive. */
export function fillTree(p: Plan, t: Tree): void {
  for (let i = 0; i < p.n; i++) slotOf(t, i).key = getf(p.key, geti(t.perm, i));
  for (let k = t.leaves; k < 2 * t.leaves; k++) nodeOf(t, k).best = leafBest(t, k);
  for (let k = t.leaves - 1; k > 0; k--)
    nodeOf(t, k).best = max(nodeOf(t, 2 * k).best, nodeOf(t, 2 * k + 1).best);
}

/** Marks the buffer of a slot as placed. */
export function removeSlot(t: Tree, slot: i32): void {
  slotOf(t, slot).key = -1;
  let k = geti(t.leafOf, geti(t.perm, slot));
  let v = leafBest(t, k);
  while (nodeOf(t, k).best != v) {
    nodeOf(t, k).best = v;
    k >>= 1;
    if (k == 0) return;
    v = max(nodeOf(t, 2 * k).best, nodeOf(t, 2 * k + 1).best);
  }
}

/** Slot of the unplaced buffer inside [l, r) with the highest key, or -1. */
export function findInside(p: Plan, t: Tree, l: i32, r: i32): i32 {
  const stack = t.stack;
  const leaves = t.leaves;
  let found = -1;
  let high: f64 = -1;
  let depth = 1;
  let seen = 0;
  puti(stack, 0, 1);
  while (depth) {
    const k = geti(stack, --depth);
    const node = nodeOf(t, k);
    seen++;
    if (node.best <= high || node.minC0 >= r || node.maxC0 < l || node.minC1 > r) continue;
    if (k < leaves) {
      // The better child goes on top.
      const better = 2 * k + i32(nodeOf(t, 2 * k).best <= nodeOf(t, 2 * k + 1).best);
      puti(stack, depth++, better ^ 1);
      puti(stack, depth++, better);
      continue;
    }
    const end = nodeOf(t, k + 1).slot;
    for (let i = node.slot; i < end; i++) {
      const s = slotOf(t, i);
      if (s.key <= high || s.c0 < l || s.c1 > r) continue;
      high = s.key;
      found = i;
    }
    seen += end - node.slot;
  }
  p.work += f64(seen);
  return found;
}
