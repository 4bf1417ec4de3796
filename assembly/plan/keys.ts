// Keys for the skyline: four fixed ones, then random ones that learn where the peak arises.

import { rangeMax } from "./sections";
import { skyline } from "./skyline";
import { getf, geti, lg, Plan, putf, random, some } from "./work";

// Trouble of a section is halved everywhere once it passes this.
const TROUBLE_MAX: f64 = 50;
// What counts as long, and as close: ratio of peak to aim.
const LONG = 4096;
const CLOSE: f64 = 1.0005;

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
  memory.copy(p.bestOff, p.off, (<usize>p.n) << 3);
}

function makeKeys(p: Plan, w: Weights): void {
  const n = p.n;
  if (w.trouble > 0) rangeMax(p, p.weight, p.key);
  let least = Infinity;
  for (let b = 0; b < n; b++) {
    let v = w.size * lg(getf(p.size, b)) + w.load * getf(p.loadMet, b);
    v += w.sections * lg(f64(geti(p.c1, b) - geti(p.c0, b)));
    if (w.lifetime > 0) {
      const id = geti(p.id, b);
      v += w.lifetime * lg(f64(geti(p.upper, id)) - f64(geti(p.lower, id)));
    }
    if (w.trouble > 0) v += w.trouble * lg(1 + getf(p.key, b));
    if (w.noise > 0) v += w.noise * random(p);
    putf(p.key, b, v);
    least = min(least, v);
  }
  for (let b = 0; b < n; b++) putf(p.key, b, getf(p.key, b) - least + 1);
}

// Blames the sections of the buffer that made the peak.
function learn(p: Plan): void {
  const b = p.peakAt;
  let most: f64 = 0;
  for (let s = geti(p.c0, b), e = geti(p.c1, b); s < e; s++) {
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

/** Whether more cheap stages are worth it: a long list that has no budget left is good enough close to the aim. */
export function another(p: Plan, aim: f64): bool {
  return p.best > aim && (p.n <= LONG || p.work < p.budget || p.best > aim * CLOSE);
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
