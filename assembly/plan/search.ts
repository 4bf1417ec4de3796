// Exact search: can every buffer be placed below a given capacity? Branch and bound with restarts.
//
// Only placements where each buffer rests on the ground or on another one need be looked at. Per open buffer: base, the
// top of what already lies below it (or the next offset above that it may have: see ground.ts), and low >= base, a proven bound on its offset. A node takes the lowest buffer b with
// low = base and branches:
//   1. b sits at its base;
//   2. it does not, so some neighbour starting below b's top lies under it, and low[b] rises to the least such top.
// Cut off when a section's floor (least low of its open buffers) plus what it still has to hold is above the capacity, or
// when a slot stays open that an open buffer could have dropped into. When no open buffer crosses a section boundary any
// more, both sides are solved on their own, the smaller first, each sorted anew by the load that is left in it.
//
// The recursion is an explicit stack of two kinds of frames: CHOICE (b was placed; on failure lift it and go on) and
// PARTS (solve the next part). Its depth is at most two frames per buffer.

import { FRAME_BYTES, LISTS_PER_BUFFER, TRAIL_PER_BUFFER } from "../abi";
import { keep } from "./keys";
import {
  begin,
  Item,
  itemOf,
  liftOff,
  listed,
  place,
  raiseLow,
  Search,
  searchReset,
  Section,
  SECTION,
  settle,
  undo,
} from "./search_state";
import { bufferAt, getf, geti, lifeOf, Plan, putf, puti, random, some, weigh } from "./work";

// What a run came to.
const IMPOSSIBLE = 0;
const FOUND = 1;
const OPEN = -1;
// Internal: go on with the list in hand.
const DOWN = 2;

// Runs with fixed preferences before the random ones, and a slack above every count.
const FIXED_RUNS = 6;
const SLACK = 10000;
// Trouble of a section is scaled down to this before a run.
const TROUBLE_MAX: f64 = 100;


@unmanaged
class Frame {
  /** CHOICE: the buffer placed. PARTS: null */
  buffer: Item | null;
  /** CHOICE: list [l, r). PARTS: l = list top to return to, r = where the starts of the parts stand */
  l: i32;
  r: i32;
  /** CHOICE: trail to undo to. PARTS: how many parts */
  mark: i32;
  /** CHOICE: list top to return to */
  list: i32;
  /** CHOICE: nothing open lay above the buffer */
  alone: i32;
}

if (offsetof<Frame>() != FRAME_BYTES) ERROR("abi.ts: FRAME_BYTES");

function topFrame(s: Search): Frame {
  return changetype<Frame>(s.frames + <usize>((s.nFrames - 1) * FRAME_BYTES));
}

function pushFrame(s: Search, buffer: Item | null, l: i32, r: i32, mark: i32, list: i32): Frame {
  s.nFrames++;
  const f = topFrame(s);
  f.buffer = buffer;
  f.l = l;
  f.r = r;
  f.mark = mark;
  f.list = list;
  f.alone = i32(s.above == 0);
  return f;
}

// Puts an item behind the lists, which are counted by the caller.
function append(s: Search, at: i32, b: Item): void {
  puti(s.lists, at, <i32>changetype<usize>(b));
}

// The open buffer of the list in hand to place next, or null: of those lowest that can sit at their base the first, or the
// one that some section needs most. s.left = how many are open. A slot nobody can fill any more (all that could have
// stood there start above) also gives null.
function choose(s: Search): Item | null {
  const found = s.nLists;
  let end = found;
  let low = i32.MAX_VALUE;
  let slot = i32.MAX_VALUE;
  let left = 0;
  for (let i = s.l; i < s.r; i++) {
    const b = listed(s, i);
    if (b.pos >= 0) continue;
    const base = b.base;
    left++;
    slot = min(slot, base + b.units);
    if (base > low || b.low != base) continue;
    if (base < low) end = found;
    low = base;
    append(s, end++, b);
  }
  s.seen += s.r - s.l;
  s.left = left;
  if (low >= slot) return null;
  return s.slack < 0 || end == found + 1 ? listed(s, found) : needed(s, low, end);
}

// lists[nLists..end) can sit at height v. Of the section that has fewest of them, the first: where only one can lie there
// is nothing to choose. Leaving a gap counts as `slack` more where there is room for one, and with `blame` sections that
// failed often come first.
function needed(s: Search, v: i32, end: i32): Item {
  for (let i = s.nLists; i < end; i++) cover(s, listed(s, i), 1);
  let found = listed(s, s.nLists);
  let least: f64 = Infinity;
  for (let i = s.nLists; i < end; i++) {
    const b = listed(s, i);
    for (let at = b.first; at < b.end; at += SECTION) {
      const q = changetype<Section>(at);
      let c = f64(q.cover + (v + q.rest < s.cap ? s.slack : 0));
      if (s.blame) c /= 1 + load<f64>(q.weight);
      if (c >= least) continue;
      least = c;
      found = b;
    }
  }
  for (let i = s.nLists; i < end; i++) cover(s, listed(s, i), -1);
  return found;
}

function cover(s: Search, b: Item, d: i32): void {
  for (let q = b.first; q < b.end; q += SECTION) changetype<Section>(q).cover += d;
  s.seen += sectionsOf(b);
}

function sectionsOf(b: Item): i32 {
  return i32((b.end - b.first) / SECTION);
}

// Nothing open in the list lies below the buffer chosen.
function raiseAll(p: Plan, s: Search, v: i32): bool {
  begin(s);
  for (let i = s.l; i < s.r; i++) {
    const b = listed(s, i);
    if (b.pos < 0 && !raiseLow(p, s, b, v)) return false;
  }
  return settle(s);
}

function exhausted(p: Plan, s: Search): bool {
  if (++s.nodes > s.nodesMax || s.seen > s.seenMax) return true;
  return (
    s.nTrail + 4 * (p.n + p.m) > p.n * TRAIL_PER_BUFFER ||
    s.nLists + 3 * (s.r - s.l) + 2 > p.n * LISTS_PER_BUFFER
  );
}

// Works on the list in hand until a buffer is placed or the list is decided.
function descend(p: Plan, s: Search): i32 {
  for (;;) {
    const b = choose(s);
    if (s.left == 0) return FOUND;
    if (b == null) return IMPOSSIBLE;
    if (exhausted(p, s)) return OPEN;
    if (!raiseAll(p, s, b.base)) return IMPOSSIBLE;
    const mark = s.nTrail;
    if (place(p, s, b)) {
      pushFrame(s, b, s.l, s.r, mark, s.nLists);
      return split(p, s, b);
    }
    undo(s, mark);
    if (!liftOff(p, s, b)) return IMPOSSIBLE;
  }
  return OPEN;
}

// After b was placed: parts if it was the last to cross some boundary, else the same list, cut down when mostly placed.
function split(p: Plan, s: Search, b: Item): i32 {
  for (let q = b.first, e = b.end - SECTION; q < e; q += SECTION) {
    if (changetype<Section>(q).crossing == 0) return cut(p, s);
  }
  if (s.left * 3 < (s.r - s.l) * 2) copyOpen(s);
  return DOWN;
}

// The open buffers of the list in hand, copied behind all lists, are the list in hand.
function copyOpen(s: Search): void {
  const from = s.nLists;
  for (let i = s.l; i < s.r; i++) {
    const b = listed(s, i);
    if (b.pos < 0) append(s, s.nLists++, b);
  }
  s.l = from;
  s.r = s.nLists;
}

// Cuts the list in hand where nothing crosses. Behind the buffers, sorted by first section, stand the starts of the parts
// and the end.
function cut(p: Plan, s: Search): i32 {
  copyOpen(s);
  const from = s.l;
  const to = s.r;
  for (let i = from; i < to; i++) {
    const b = listed(s, i);
    b.score = -f64(b.first);
  }
  sortList(s, from, to);
  let end: usize = 0;
  for (let i = from; i < to; i++) {
    const b = listed(s, i);
    if (b.first >= end) puti(s.lists, s.nLists++, i);
    end = max(end, b.end);
  }
  pushFrame(s, null, from, to, s.nLists - to, 0);
  puti(s.lists, s.nLists++, to);
  return nextPart(p, s);
}

// By falling score, equals by index.
function sortList(s: Search, from: i32, to: i32): void {
  for (let i = from + 1; i < to; i++) {
    const b = listed(s, i);
    let j = i;
    for (; j > from; j--) {
      const c = listed(s, j - 1);
      if (c.score > b.score || (c.score == b.score && c.index < b.index)) break;
      append(s, j, c);
    }
    append(s, j, b);
  }
}

// Takes the smallest part not yet solved; a solved one has its start complemented.
function nextPart(p: Plan, s: Search): i32 {
  const f = topFrame(s);
  let pick = -1;
  let length = i32.MAX_VALUE;
  for (let i = f.r, e = f.r + f.mark; i < e; i++) {
    const a = geti(s.lists, i);
    const b = geti(s.lists, i + 1);
    const d = (b < 0 ? ~b : b) - a;
    if (a < 0 || d >= length) continue;
    length = d;
    pick = i;
  }
  if (pick < 0) {
    s.nLists = f.l;
    s.nFrames--;
    return FOUND;
  }
  s.l = geti(s.lists, pick);
  s.r = s.l + length;
  puti(s.lists, pick, ~s.l);
  rank(p, s);
  return DOWN;
}

// The list in hand is decided: what that means for the frame above it.
function ascend(p: Plan, s: Search, res: i32): i32 {
  const f = topFrame(s);
  const b = f.buffer;
  if (b == null) {
    if (res == FOUND) return nextPart(p, s);
    s.nLists = f.l;
    s.nFrames--;
    return IMPOSSIBLE;
  }
  s.nFrames--;
  s.nLists = f.list;
  if (res == FOUND) return FOUND;
  undo(s, f.mark);
  // With nothing open above it, its place was not to blame.
  if (f.alone) return IMPOSSIBLE;
  s.l = f.l;
  s.r = f.r;
  return liftOff(p, s, b) ? DOWN : IMPOSSIBLE;
}

// Sorts the list in hand by preference, from the load that is left where each buffer lies.
function rank(p: Plan, s: Search): void {
  for (let i = s.l; i < s.r; i++) {
    const b = listed(s, i);
    b.score = scoreOf(p, s, b);
  }
  sortList(s, s.l, s.r);
}

function scoreOf(p: Plan, s: Search, b: Item): f64 {
  let rest = 0;
  let trouble: f64 = 0;
  for (let at = b.first; at < b.end; at += SECTION) {
    const q = changetype<Section>(at);
    rest = max(rest, q.rest);
    trouble = max(trouble, load<f64>(q.weight));
  }
  s.seen += sectionsOf(b);
  const near = weigh(weigh(0, p.wSize, bufferAt(p, b.index).size), p.wLoad, f64(rest) / f64(s.cap));
  return weigh(weigh(0, p.wLifetime, lifeOf(p, b.index)) + (near + b.noise), p.wTrouble, 1 + trouble);
}

function attempt(p: Plan, s: Search, capacity: f64): i32 {
  if (!searchReset(p, s, capacity)) return IMPOSSIBLE;
  s.l = 0;
  s.r = p.n;
  let res = cut(p, s);
  while (res == DOWN || (res != OPEN && s.nFrames > 0)) {
    res = res == DOWN ? descend(p, s) : ascend(p, s, res);
  }
  return res;
}

// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ...
function luby(i: i32): i32 {
  let k = 1;
  while ((1 << k) - 1 < i) k++;
  return (1 << k) - 1 == i ? 1 << (k - 1) : luby(i - (1 << (k - 1)) + 1);
}

// Three preferences that work often, with and without a look at what sections need, then random ones; the trouble term
// follows the sections that failed.
function prefer(p: Plan, s: Search): void {
  const run = ++s.run;
  p.wLifetime = run <= 2 ? 1 : 1e-3;
  p.wSize = run > 4 ? 1e-6 : 1e-3;
  p.wLoad = run <= 2 ? 0 : 1;
  p.wTrouble = 0;
  s.slack = run & 1 ? SLACK : -1;
  s.blame = false;
  let amount: f64 = 0;
  if (run > FIXED_RUNS) {
    p.wLifetime = random(p) * 1.2;
    p.wSize = random(p) * 1.2;
    p.wLoad = some(p, 5, 8);
    p.wTrouble = some(p, 7, 2);
    s.slack = random(p) < 0.4 ? SLACK : i32(random(p) * 4) - 1;
    s.blame = random(p) < 0.7;
    amount = some(p, 5, 1) * 0.3;
  }
  for (let i = 0; i < p.n; i++) itemOf(s, i).noise = run > FIXED_RUNS ? amount * random(p) : 0;
  let most: f64 = 0;
  for (let i = 0; i < p.m; i++) most = max(most, getf(p.weight, i));
  if (most <= TROUBLE_MAX) return;
  for (let i = 0; i < p.m; i++) putf(p.weight, i, (getf(p.weight, i) * TROUBLE_MAX) / most);
}

/**
 * Looks for a plan of at most `capacity` until the work reaches `stop`; keeps what it finds. When there is none, every peak
 * being a sum of sizes, the next multiple of their unit is the least: the proved bound rises.
 */
export function search(p: Plan, s: Search, capacity: f64, stop: f64): void {
  while (p.work < stop) {
    prefer(p, s);
    s.nodesMax = luby(s.run) * p.n * 4;
    s.seen = 0;
    s.seenMax = i32(min(p.budget - p.work, 1e9));
    const res = attempt(p, s, capacity);
    p.work += f64(s.seen + p.n);
    if (res == OPEN) continue;
    if (res == FOUND) accept(p, s);
    else p.proved = max(p.proved, (Math.floor(capacity / s.unit) + 1) * s.unit);
    return;
  }
}

function accept(p: Plan, s: Search): void {
  let peak = p.floor;
  for (let b = 0; b < p.n; b++) {
    const at = f64(itemOf(s, b).pos) * s.unit;
    const x = bufferAt(p, b);
    x.off = at;
    peak = max(peak, at + x.size);
  }
  if (peak < p.best) keep(p, peak);
}
