// Time reduced to sections: the maximal sets of buffers alive together.
//
// Sweep births and deaths in order, deaths first where they meet; a section closes when a death follows a birth. There
// are at most n of them, two buffers conflict exactly when their section ranges [c0, c1) overlap, and the heaviest
// section is a lower bound for every plan.

import { SORT_COUNTS } from "../abi";
import { Buffer, bufferAt, getf, geti, lg, Plan, putf, puti } from "./work";

const DIGIT = 11;
const DIGITS = 1 << DIGIT;

if (DIGITS + 1 != SORT_COUNTS) ERROR("abi.ts: SORT_COUNTS");

/**
 * Numbers the buffers by birth, finds sections and loads, and the lower bound, which is never raised above the one on
 * entry. The pre-placed count in the loads.
 */
export function findSections(p: Plan): void {
  const bound = p.lowerBound;
  const byLower = byBirth(p);
  p.byUpper = sortIds(p, p.upper, p.sortA ^ p.sortB ^ byLower, p.sortC);
  sweep(p, byLower);
  p.lowerBound = min(max(p.lowerBound, p.floor), bound);
  p.proved = p.lowerBound;
  maxTree(p, p.load);
  for (let b = 0; b < p.n; b++) putf(p.loadMet, b, lg(maxOver(p, bufferAt(p, b)) / p.lowerBound));
  memory.fill(p.weight, 0, (<usize>p.m) << 3);
}

// Gives those to place their numbers, and returns all buffers by birth.
function byBirth(p: Plan): usize {
  const n = p.n + p.nFixed;
  const order = sortIds(p, p.lower, p.sortA, p.sortB);
  const ids = p.bestOff; // not yet in use
  memory.copy(ids, p.id, (<usize>n) << 2);
  let next = 0;
  for (let k = 0; k < n; k++) {
    let i = geti(order, k);
    const id = geti(ids, i);
    if (i < p.n) i = next++;
    puti(order, k, i);
    puti(p.id, i, id);
    const b = bufferAt(p, i);
    b.size = getf(p.bytes, id);
    b.off = getf(p.offset, id);
  }
  return order;
}


@inline
function digitOf(p: Plan, by: usize, b: i32, shift: i32): i32 {
  return (geti(by, geti(p.id, b)) >>> shift) & (DIGITS - 1);
}

/**
 * Buffers by ascending key, i32 of at least 0: radix sort between arrays a and b, returns one of them. A digit that all
 * keys share costs a count and no move.
 */
function sortIds(p: Plan, by: usize, a: usize, b: usize): usize {
  const n = p.n + p.nFixed;
  const counts = p.counts;
  for (let i = 0; i < n; i++) puti(a, i, i);
  for (let shift = 0; shift < 32 && n > 0; shift += DIGIT) {
    memory.fill(counts, 0, SORT_COUNTS * 4);
    for (let i = 0; i < n; i++) {
      const d = digitOf(p, by, i, shift) + 1;
      puti(counts, d, geti(counts, d) + 1);
    }
    if (geti(counts, digitOf(p, by, 0, shift) + 1) == n) continue;
    for (let d = 0; d < DIGITS; d++) puti(counts, d + 1, geti(counts, d + 1) + geti(counts, d));
    for (let i = 0; i < n; i++) {
      const x = geti(a, i);
      const d = digitOf(p, by, x, shift);
      const at = geti(counts, d);
      puti(counts, d, at + 1);
      puti(b, at, x);
    }
    const t = a;
    a = b;
    b = t;
  }
  return a;
}

function sweep(p: Plan, byLower: usize): void {
  const n = p.n + p.nFixed;
  let i = 0;
  let m = 0;
  let alive: f64 = 0;
  let born = false;
  p.lowerBound = 0;
  for (let j = 0; j < n;) {
    const dies = geti(p.byUpper, j);
    if (i < n && geti(p.lower, geti(p.id, geti(byLower, i))) < geti(p.upper, geti(p.id, dies))) {
      const b = bufferAt(p, geti(byLower, i++));
      b.c0 = m;
      alive += b.size;
      born = true;
      continue;
    }
    if (born) {
      putf(p.load, m++, alive);
      p.lowerBound = max(p.lowerBound, alive);
      born = false;
    }
    const b = bufferAt(p, dies);
    b.c1 = m;
    alive -= b.size;
    j++;
  }
  p.m = m;
}

/** Prepares maxOver() for values v, f64 per section. */
export function maxTree(p: Plan, v: usize): void {
  const m = p.m;
  const tree = p.maxTree; // leaves at m..2m
  memory.copy(tree + ((<usize>m) << 3), v, (<usize>m) << 3);
  for (let i = m - 1; i > 0; i--) putf(tree, i, max(getf(tree, 2 * i), getf(tree, 2 * i + 1)));
}

/** Largest value over the sections of a buffer, at least 0. */
export function maxOver(p: Plan, b: Buffer): f64 {
  const tree = p.maxTree;
  let x: f64 = 0;
  let l = b.c0 + p.m;
  for (let r = b.c1 + p.m; l < r; l >>= 1, r >>= 1) {
    if (l & 1) x = max(x, getf(tree, l++));
    if (r & 1) x = max(x, getf(tree, --r));
  }
  return x;
}
