// Keys for the skyline: four fixed ones, then random ones that learn where the peak arises.

import { maxOver, maxTree } from "./sections";
import { skyline } from "./skyline";
import { bufferAt, getf, lifeOf, Plan, putf, random, some, weigh } from "./work";

// Trouble of a section is halved everywhere once it passes this.
const TROUBLE_MAX: f64 = 50;
// What counts as long, and as close: ratio of peak to aim.
const LONG = 4096;
const CLOSE: f64 = 1.0005;
// Work per buffer after which a long list without a budget gets no further cheap stage.
const HEAVY: f64 = 500;

/** Keeps the offsets of the last run as the best. */
export function keep(p: Plan, peak: f64): void {
  p.best = peak;
  for (let i = 0; i < p.n; i++) putf(p.bestOff, i, bufferAt(p, i).off);
}

function makeKeys(p: Plan): void {
  const n = p.n;
  if (p.wTrouble > 0) maxTree(p, p.weight);
  let least = Infinity;
  for (let i = 0; i < n; i++) {
    const b = bufferAt(p, i);
    let v = weigh(weigh(0, p.wSize, b.size) + p.wLoad * getf(p.loadMet, i), p.wSections, b.c1 - b.c0);
    if (p.wLifetime > 0) v = weigh(v, p.wLifetime, lifeOf(p, i));
    if (p.wTrouble > 0) v = weigh(v, p.wTrouble, 1 + maxOver(p, b));
    if (p.wNoise > 0) v += p.wNoise * random(p);
    b.key = v;
    least = min(least, v);
  }
  for (let i = 0; i < n; i++) {
    const b = bufferAt(p, i);
    b.key = b.key - least + 1;
  }
}

// Blames the sections of the buffer that made the peak.
function learn(p: Plan): void {
  const b = bufferAt(p, p.peakAt);
  let most: f64 = 0;
  for (let s = b.c0, e = b.c1; s < e; s++) {
    const v = getf(p.weight, s) + 1;
    putf(p.weight, s, v);
    most = max(most, v);
  }
  if (most <= TROUBLE_MAX) return;
  for (let s = 0; s < p.m; s++) putf(p.weight, s, getf(p.weight, s) * 0.5);
}

function runKeys(p: Plan): void {
  makeKeys(p);
  const peak = skyline(p, p.best);
  if (peak < p.best) keep(p, peak);
  if (peak > p.lowerBound) learn(p);
}

/**
 * Whether more cheap stages are worth it: a long list that has no budget left is good enough close to the aim, or once much
 * was done for it.
 */
export function another(p: Plan, aim: f64): bool {
  if (p.best <= aim) return false;
  return p.n <= LONG || p.work < p.budget || (p.best > aim * CLOSE && p.work < f64(p.n) * HEAVY);
}

/** Area, sections, area where the load is high, size; until the peak is at most `aim`. */
export function quick(p: Plan, aim: f64): void {
  memory.fill(changetype<usize>(p) + offsetof<Plan>("wLifetime"), 0, 24); // trouble and noise, too
  // From the right, a digit each: sections, size, load.
  for (let k: u64 = 0x010_811_001_011; k != 0; k >>= 12) {
    p.wSections = f64(k & 1);
    p.wSize = f64((k >> 4) & 1);
    p.wLoad = f64((k >> 8) & 15);
    runKeys(p);
    if (!another(p, aim)) return;
  }
}

/** Random keys until the peak is at most `aim` or the work reaches `stop`. */
export function improve(p: Plan, aim: f64, stop: f64): void {
  while (p.best > aim && p.work < stop) {
    p.wLifetime = some(p, 5, 1);
    p.wSize = random(p) * 1.2;
    p.wLoad = some(p, 5, 16);
    p.wSections = random(p) * 1.2;
    p.wTrouble = some(p, 6, 2);
    p.wNoise = some(p, 5, 1) * 0.3;
    runKeys(p);
  }
}
