// Placement of a list, stage after stage, each only while the result is above what is aimed at.
//
//   sections, bound -> skyline with fixed keys -> best fit (plain lists; records come with one) -> search and restarts

import { another, improve, quick } from "./keys";
import { onlineFit } from "./online_fit";
import { search } from "./search";
import { Search, searchInit } from "./search_state";
import { findSections } from "./sections";
import { skyInit } from "./skyline";
import { getf, geti, Plan, putf } from "./work";

// Above this ratio to the aim restarts of the skyline hardly ever get there, below it they often do.
const NEAR: f64 = 1.02;
// Work of the first round per buffer, and the part of a round that the less likely method has.
const FIRST: f64 = 1000;
const LESS: f64 = 0.03;
// Part of the budget that aims directly.
const DIRECT: f64 = 0.75;
// Relative step by which a smaller peak is asked for once the aim is out of reach.
const STEP: f64 = 0.008;

/**
 * Places the buffers of the workspace. On entry `best` is what is known (Infinity: nothing) with its offsets in the list, and
 * is improved on until it is at most max(capacity, lower bound) or the budget is spent.
 */
export function planPlace(pWork: usize): void {
  const p = changetype<Plan>(pWork);
  const before = p.best;
  findSections(p);
  if (p.n == 0) {
    p.best = p.floor;
    return;
  }
  const aim = max(p.capacity, p.lowerBound);
  skyInit(p);
  quick(p, aim);
  if (before == Infinity && p.plain && another(p, aim)) onlineFit(p);
  if (p.best > aim) struggle(p, aim);
  if (p.best < before) scatter(p);
}

// Above the aim after the cheap stages: search and restarts in turn, in rounds that double, the less likely one with a
// smaller part. What neither reaches is then approached step by step.
function struggle(p: Plan, aim: f64): void {
  const s = searchInit(p);
  if (s == null) return improve(p, aim, p.budget);
  const near = p.best <= aim * NEAR;
  const stop = p.work + (p.budget - p.work) * DIRECT;
  for (let round = FIRST * f64(p.n); p.work < stop && p.proved <= aim; round *= 2) {
    improve(p, aim, min(stop, p.work + (near ? round : round * LESS)));
    if (p.best <= aim) return;
    search(p, s, aim, min(stop, p.work + (near ? round * LESS : round)));
    if (p.best <= aim) return;
  }
  descend(p, s, aim);
}

// Asks for a little less again and again; what is impossible raises the proved bound.
function descend(p: Plan, s: Search, aim: f64): void {
  while (p.work < p.budget) {
    const least = max(aim, p.proved);
    if (p.best <= least) return;
    const target = max(p.best * (1 - STEP), (p.best + least) / 2);
    search(p, s, target, p.budget);
  }
}

function scatter(p: Plan): void {
  for (let b = 0; b < p.n; b++) putf(p.offset, geti(p.id, b), getf(p.bestOff, b));
}
