// "Which unplaced buffer lies inside sections [l, r) and has the highest key?" A binary tree over the buffers by birth.
//
// Buffers are numbered by birth, so those born in [l, r) are neighbours; of these, the ones that end by r fit. Implicit:
// node k has children 2k and 2k + 1, a leaf stands for LEAF buffers. Most valleys are narrow: their buffers lie under a
// node near the leaves, and the search starts there.
//
//   node  0 best key f64, 0 when all are placed | 8 least c1 of the unplaced | 16

import { TREE_LEAF } from "../abi";
import { bufferAt, geti, Plan, puti } from "./work";

const LEAF_SHIFT = 3;
const LEAF = 1 << LEAF_SHIFT;

if (LEAF != TREE_LEAF) ERROR("abi.ts: TREE_LEAF");
// Stretches of up to so many buffers are looked through without a detour over their nodes.
const SHORT = 16;


@unmanaged
class Node {
  best: f64;
  minC1: i32;
}


@inline
function nodeOf(p: Plan, k: i32): Node {
  return changetype<Node>(p.nodes + ((<usize>k) << 4));
}

// Looks again at what lies under node k; false when nothing has changed.
function update(p: Plan, k: i32): bool {
  let best: f64 = 0;
  let minC1 = i32.MAX_VALUE;
  if (k < p.leaves) {
    const a = nodeOf(p, 2 * k);
    const b = nodeOf(p, 2 * k + 1);
    best = max(a.best, b.best);
    minC1 = min(a.minC1, b.minC1);
  } else {
    const from = (k - p.leaves) << LEAF_SHIFT;
    for (let i = from, e = min(p.n, from + LEAF); i < e; i++) {
      const b = bufferAt(p, i);
      if (b.key == 0) continue;
      best = max(best, b.key);
      minC1 = min(minC1, b.c1);
    }
  }
  const node = nodeOf(p, k);
  if (node.best == best && node.minC1 == minC1) return false;
  node.best = best;
  node.minC1 = minC1;
  return true;
}

/** Takes the keys of all buffers: everything is unplaced again. Keys are positive. */
export function fillTree(p: Plan): void {
  for (let k = 2 * p.leaves - 1; k > 0; k--) update(p, k);
}

/** Marks a buffer as placed: its key is gone. */
export function removeBuffer(p: Plan, b: i32): void {
  bufferAt(p, b).key = 0;
  for (let k = p.leaves + (b >> LEAF_SHIFT); k > 0 && update(p, k); k >>= 1) {}
}

/** Of the unplaced buffers [first, end) that are gone by section r the one with the highest key, or -1. */
export function findInside(p: Plan, first: i32, end: i32, r: i32): i32 {
  if (first == end) return -1;
  const stack = p.stack;
  const leaves = p.leaves;
  // The lowest node above all of them.
  const low = leaves + (first >> LEAF_SHIFT);
  const apart = low ^ (leaves + ((end - 1) >> LEAF_SHIFT));
  puti(stack, 0, low >> (32 - clz(apart)));
  let found = -1;
  let high: f64 = 0;
  let seen = 0;
  for (let depth = 1; depth;) {
    const k = geti(stack, --depth);
    const node = nodeOf(p, k);
    seen++;
    if (node.best <= high || node.minC1 > r) continue;
    const down = clz(k) - clz(leaves) + LEAF_SHIFT;
    const from = max(first, (k << down) - (leaves << LEAF_SHIFT));
    const to = min(end, ((k + 1) << down) - (leaves << LEAF_SHIFT));
    if (to - from > SHORT) {
      // The better child goes on top.
      const better = 2 * k + i32(nodeOf(p, 2 * k).best <= nodeOf(p, 2 * k + 1).best);
      puti(stack, depth++, better ^ 1);
      puti(stack, depth++, better);
      continue;
    }
    for (let i = from; i < to; i++) {
      const b = bufferAt(p, i);
      if (b.key <= high || b.c1 > r) continue;
      high = b.key;
      found = i;
    }
    seen += max(0, to - from);
  }
  p.work += f64(seen);
  return found;
}
