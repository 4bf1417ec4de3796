// Keys for the skyline: four fixed ones, then random ones that learn where the peak arises.

import { maxOver, maxTree } from "./sections";
import { skyline } from "./skyline";
import { bufferAt, getf, geti, lg, Plan, putf, random, some } from "./work";

// Trouble of a section is halved everywhere once it passes this.
const TROUBLE_MAX: f64 = 50;
// What counts as long, and as close: ratio of peak to aim.
const LONG = 4096;
const CLOSE: f64 = 1.0005;
// Work per buffer after which a long list without a budget gets no further cheap stage.
const HEAVY: f64 = 500;

/** Weights of the logs that make up a key. */
@unmanaged
class Weights {
  lifetime: f64;
  size: f64;
  load: f64;
  sections: f64;
  trouble: f64;
  noise: f64;
}

/** Bytes of the weights. */
export const KEY_BYTES: usize = offsetof<Weights>();

/** Keeps the offsets of the last run as the best. */
export function keep(p: Plan, peak: f64): void {
  p.best = peak;
  for (let i = 0; i < p.n; i++) putf(p.bestOff, i, bufferAt(p, i).off);
}

function makeKeys(p: Plan, w: Weights): void {
  const n = p.n;
  if (w.trouble > 0) maxTree(p, p.weight);
  let least = Infinity;
  for (let i = 0; i < n; i++) {
    const b = bufferAt(p, i);
    let v = w.size * lg(b.size) + w.load * getf(p.loadMet, i);
    v += w.sections * lg(f64(b.c1 - b.c0));
    if (w.lifetime > 0) {
      const id = geti(p.id, i);
      v += w.lifetime * lg(f64(geti(p.upper, id)) - f64(geti(p.lower, id)));
    }
    if (w.trouble > 0) v += w.trouble * lg(1 + maxOver(p, b));
    if (w.noise > 0) v += w.noise * random(p);
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

function runKeys(p: Plan, w: Weights): void {
  makeKeys(p, w);
  const peak = skyline(p, p.best);
  if (peak < p.best) keep(p, peak);
  if (peak > p.lowerBound) learn(p);
}

function fixed(p: Plan, w: Weights, size: i32, load: i32, sections: i32): void {
  memory.fill(changetype<usize>(w), 0, KEY_BYTES);
  w.size = size;
  w.load = load;
  w.sections = sections;
  runKeys(p, w);
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
export function quick(p: Plan, at: usize, aim: f64): void {
  const w = changetype<Weights>(at);
  fixed(p, w, 1, 0, 1);
  if (another(p, aim)) fixed(p, w, 0, 0, 1);
  if (another(p, aim)) fixed(p, w, 1, 8, 1);
  if (another(p, aim)) fixed(p, w, 1, 0, 0);
}

/** Random keys until the peak is at most `aim` or the work reaches `stop`. */
export function improve(p: Plan, at: usize, aim: f64, stop: f64): void {
  const w = changetype<Weights>(at);
  while (p.best > aim && p.work < stop) {
    w.lifetime = some(p, 0.5, 1);
    w.size = random(p) * 1.2;
    w.load = some(p, 0.5, 16);
    w.sections = random(p) * 1.2;
    w.trouble = some(p, 0.6, 2);
    w.noise = some(p, 0.5, 0.3);
    runKeys(p, w);
  }
}
