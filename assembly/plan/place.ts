// Placement of a list, stage after stage, each only while the result is above what is aimed at.

import { improve, KEY_BYTES, quick } from "./keys";
import { findSections, sectionBytes } from "./sections";
import { search } from "./search";
import { searchBytes, searchInit } from "./search_state";
import { skyBytes, skyInit } from "./skyline";
import { buildTree, treeBytes } from "./tree";
import { getf, geti, Plan, putf, take } from "./work";

/** Bytes of workspace for a list of `n`. */
export function placeBytes(n: i32): usize {
  return sectionBytes(n) + treeBytes(n) + skyBytes(n) + KEY_BYTES + searchBytes(n) + 64;
}

/**
 * Places the list of the plan. On entry p.best is what is known (Infinity: nothing) with its offsets in p.offset, and is
 * improved on until it is at most max(capacity, lower bound) or the budget is spent.
 *
 * @param bound a lower bound known better than the sections', or Infinity
 */
export function placeList(p: Plan, bound: f64, capacity: f64): void {
  const before = p.best;
  findSections(p, bound);
  if (p.n == 0) {
    p.best = 0;
    return;
  }
  const aim = max(capacity, p.lowerBound);
  if (before > aim) {
    buildTree(p);
    skyInit(p);
    const keys = take(p, KEY_BYTES);
    quick(p, keys, aim);
    if (p.best > aim) struggle(p, keys, aim);
  }
  if (p.best < before) scatter(p);
}

// Above the bound after the quick keys: search where it can, restarts elsewhere.
function struggle(p: Plan, keys: usize, aim: f64): void {
  const s = searchInit(p);
  if (s != null) search(p, s, aim, p.budget);
  if (p.best > aim) improve(p, keys, aim, p.budget);
}

function scatter(p: Plan): void {
  for (let b = 0; b < p.n; b++) putf(p.offset, geti(p.id, b), getf(p.bestOff, b));
}
