// State of the exact search and its elementary moves: place, lift, undo. See search.ts for the idea.
//
// All heights are i32 multiples of `unit`, the greatest common divisor of the sizes (and of what else offsets can be). Neighbourhoods and sections are
// bit rows, so that "neighbours still open" is one AND; a list of 4096 has 64 words a row and 2 MiB of each kind.

import { lowestFor } from "./ground";
import { getf, geti, lay, Plan, putf, puti, take } from "./work";

/** Largest list the search takes. */
export const SEARCH_MAX = 4096;
// Most units a capacity may have: sums of two heights stay below 2^31.
const UNITS_MAX: f64 = 1073741823;

// Kinds of trail entries: what `old` was the value of.
const BASE = 0;
const LOW = 1;
const FLOOR = 2;
const WITNESS = 3;
const PLACED = 4;


@unmanaged
export class Search {
  unit: f64;
  cap: i32;
  /** u64 words in a bit row */
  words: i32;
  /** buffers looked at since the run began, and the most that may be */
  seen: i32;
  seenMax: i32;
  nodes: i32;
  nodesMax: i32;
  run: i32;
  /** open neighbours of the buffer placed last */
  above: i32;

  // Per buffer, i32.
  units: usize;
  /** top of what lies below it */
  base: usize;
  /** proven bound on its offset, >= base */
  low: usize;
  /** offset, or -1 while open */
  pos: usize;
  score: usize; // f64
  noise: usize; // f64

  // Per section, i32.
  /** units still to be placed there */
  rest: usize;
  /** open buffers that go on into the next section */
  crossing: usize;
  /** least low of its open buffers */
  floor: usize;
  /** the open buffer that has it, or -1 */
  witness: usize;
  mark: usize;
  dirty: usize;
  /** buffers that can sit at the height in hand, 0 between nodes */
  cover: usize;
  nDirty: i32;
  stamp: i32;

  // Bit rows.
  near: usize; // buffer -> buffers it meets
  members: usize; // section -> its buffers
  open: usize; // buffers not placed

  /** {kind << 28 | index, old} pairs */
  trail: usize;
  nTrail: i32;
  /** lists of open buffers, one behind the other */
  lists: usize;
  nLists: i32;
  frames: usize;
  nFrames: i32;
  /** list in hand: lists[l..r), and how many of it are open */
  l: i32;
  r: i32;
  left: i32;

  // Weights of the logs in a score.
  lifetime: f64;
  size: f64;
  load: f64;
  trouble: f64;
  /** what a gap counts when sections are compared by need; -1: they are not */
  slack: i32;
  /** sections that failed often come first */
  blame: bool;
}

/** Trail entries and list entries for `n` buffers; a run that needs more gives up. */
export function trailMax(n: i32): i32 {
  return n * 512;
}

export function listsMax(n: i32): i32 {
  return n * 32;
}

/** Bytes of a frame of the explicit stack: six i32. */
export const FRAME_BYTES: usize = 24;

function wordsFor(n: i32): i32 {
  return (n + 63) >> 6;
}

/** Bytes for `n` buffers; 0 when there are too many. */
export function searchBytes(n: i32): usize {
  if (n > SEARCH_MAX) return 0;
  const k = <usize>n;
  const rows = (k + k + 1) * <usize>(wordsFor(n) * 8);
  return (
    offsetof<Search>() +
    256 +
    k * (32 + 28) +
    rows +
    <usize>trailMax(n) * 8 +
    <usize>listsMax(n) * 4 +
    (2 * k + 2) * FRAME_BYTES
  );
}

/** Sets up the search, or returns null when the list is too large or too fine. */
export function searchInit(p: Plan): Search | null {
  const unit = commonUnit(p);
  if (p.n > SEARCH_MAX || p.best / unit > UNITS_MAX) return null;
  const n = <usize>p.n;
  const m = <usize>p.m;
  const s = changetype<Search>(take(p, offsetof<Search>()));
  s.unit = unit;
  s.words = wordsFor(p.n);
  s.run = 0;
  const fields = changetype<usize>(s);
  lay(p, fields + offsetof<Search>("units"), 4, n << 2); // units, base, low, pos
  lay(p, fields + offsetof<Search>("score"), 2, n << 3); // score, noise
  lay(p, fields + offsetof<Search>("rest"), 7, m << 2); // rest .. cover
  s.near = take(p, (n * s.words) << 3);
  s.members = take(p, (m * s.words) << 3);
  s.open = take(p, (<usize>s.words) << 3);
  s.trail = take(p, (<usize>trailMax(p.n)) << 3);
  s.lists = take(p, (<usize>listsMax(p.n)) << 2);
  s.frames = take(p, (2 * n + 2) * FRAME_BYTES);
  fillRows(p, s);
  return s;
}

function commonUnit(p: Plan): f64 {
  let g: f64 = 0;
  for (let b = 0, e = p.n + p.nFixed; b < e; b++) g = gcd(g, getf(p.size, b));
  if (p.plain) return g;
  for (let f = p.n, e = p.n + p.nFixed; f < e; f++) g = gcd(g, getf(p.offset, geti(p.id, f)));
  if (p.chunk < Infinity) g = gcd(g, p.chunk);
  // An alignment that divides the unit asks for nothing; a finer unit may ask again for what was settled before.
  for (let b = 0; p.aligns && b < p.n; b++) {
    const a = getf(p.aligns, geti(p.id, b));
    const finer = gcd(g, a);
    if (finer == g || finer == a) continue;
    g = finer;
    b = -1;
  }
  return g;
}

function gcd(x: f64, y: f64): f64 {
  while (y > 0) {
    const t = y;
    // An exact f64 remainder of whole numbers.
    y = f64(<i64>x % <i64>y);
    x = t;
  }
  return x;
}

// Lowest allowed height of b from v on; at most UNITS_MAX, which is above every capacity.
function lowest(p: Plan, s: Search, b: i32, v: i32): i32 {
  if (p.plain) return v;
  return i32(min(lowestFor(p, b, f64(v) * s.unit) / s.unit, UNITS_MAX));
}


@inline
export function row(s: Search, rows: usize, i: i32): usize {
  return rows + ((<usize>(i * s.words)) << 3);
}


@inline
function setBit(bits: usize, i: i32): void {
  const at = bits + (((<usize>i) >> 6) << 3);
  store<u64>(at, load<u64>(at) | ((<u64>1) << ((<u64>i) & 63)));
}

function fillRows(p: Plan, s: Search): void {
  memory.fill(s.near, 0, (<usize>(p.n * s.words)) << 3);
  memory.fill(s.members, 0, (<usize>(p.m * s.words)) << 3);
  for (let b = 0; b < p.n; b++) {
    puti(s.units, b, i32(getf(p.size, b) / s.unit));
    for (let c = 0; c < p.n; c++) {
      if (c != b && geti(p.c0, c) < geti(p.c1, b) && geti(p.c0, b) < geti(p.c1, c))
        setBit(row(s, s.near, b), c);
    }
    for (let i = geti(p.c0, b); i < geti(p.c1, b); i++) setBit(row(s, s.members, i), b);
  }
}

/** Everything open again. False when a section or a buffer alone is above `capacity`. */
export function searchReset(p: Plan, s: Search, capacity: f64): bool {
  const n = p.n;
  const m = (<usize>p.m) << 2;
  s.cap = i32(Math.floor(capacity / s.unit));
  s.nTrail = 0;
  s.nFrames = 0;
  s.nLists = n;
  s.nodes = 0;
  s.stamp = 0;
  memory.fill(s.floor, 0, m);
  memory.fill(s.witness, 0xff, m);
  memory.fill(s.mark, 0, m);
  memory.fill(s.cover, 0, m);
  memory.fill(s.rest, 0, m);
  memory.fill(s.crossing, 0, m);
  memory.fill(s.open, 0, (<usize>s.words) << 3);
  for (let b = 0; b < n; b++) {
    const ground = lowest(p, s, b, 0);
    if (ground + geti(s.units, b) > s.cap) return false;
    puti(s.lists, b, b);
    puti(s.base, b, ground);
    puti(s.low, b, ground);
    reopen(p, s, b);
  }
  for (let i = 0; i < p.m; i++) {
    if (geti(s.rest, i) > s.cap) return false;
  }
  return true;
}

// b joins (k = 1) or leaves (k = -1) what is still to be placed.
function count(p: Plan, s: Search, b: i32, k: i32): void {
  const units = geti(s.units, b) * k;
  const last = geti(p.c1, b) - 1;
  for (let i = geti(p.c0, b); i <= last; i++) puti(s.rest, i, geti(s.rest, i) + units);
  for (let i = geti(p.c0, b); i < last; i++) puti(s.crossing, i, geti(s.crossing, i) + k);
}

function reopen(p: Plan, s: Search, b: i32): void {
  puti(s.pos, b, -1);
  setBit(s.open, b);
  count(p, s, b, 1);
}


@inline
function note(s: Search, kind: i32, i: i32, old: i32): void {
  const at = s.trail + ((<usize>s.nTrail) << 3);
  s.nTrail++;
  store<i32>(at, (kind << 28) | i);
  store<i32>(at, old, 4);
}

/** Takes back everything noted after entry `to`. */
export function undo(p: Plan, s: Search, to: i32): void {
  while (s.nTrail > to) {
    s.nTrail--;
    const at = s.trail + ((<usize>s.nTrail) << 3);
    const i = load<i32>(at) & 0xfffffff;
    const old = load<i32>(at, 4);
    switch (load<i32>(at) >> 28) {
      case BASE:
        puti(s.base, i, old);
        break;
      case LOW:
        puti(s.low, i, old);
        break;
      case FLOOR:
        puti(s.floor, i, old);
        break;
      case WITNESS:
        puti(s.witness, i, old);
        break;
      default:
        reopen(p, s, i);
    }
  }
}

/** Opens a round of changes; settle() closes it. */
export function begin(s: Search): void {
  s.stamp++;
  s.nDirty = 0;
}

// The sections whose witness is b need another look.
function touch(p: Plan, s: Search, b: i32): void {
  for (let i = geti(p.c0, b), e = geti(p.c1, b); i < e; i++) {
    const w = geti(s.witness, i);
    if ((w != b && w >= 0) || geti(s.mark, i) == s.stamp) continue;
    puti(s.mark, i, s.stamp);
    puti(s.dirty, s.nDirty++, i);
  }
}

/** Raises the bound of b to v; false when b cannot stay below the capacity. */
export function raiseLow(p: Plan, s: Search, b: i32, v: i32): bool {
  const old = geti(s.low, b);
  if (old >= v) return true;
  v = lowest(p, s, b, v);
  note(s, LOW, b, old);
  puti(s.low, b, v);
  if (v + geti(s.units, b) > s.cap) return false;
  touch(p, s, b);
  return true;
}

/** Looks again at the touched sections; false when what is left of one does not fit above its floor. */
export function settle(p: Plan, s: Search): bool {
  for (let k = 0; k < s.nDirty; k++) {
    const i = geti(s.dirty, k);
    if (geti(s.rest, i) == 0) continue;
    const old = geti(s.floor, i);
    const w = lowestOpen(s, i, old);
    if (w != geti(s.witness, i)) {
      note(s, WITNESS, i, geti(s.witness, i));
      puti(s.witness, i, w);
    }
    const v = geti(s.low, w);
    if (v <= old) continue;
    note(s, FLOOR, i, old);
    puti(s.floor, i, v);
    if (v + geti(s.rest, i) <= s.cap) continue;
    putf(p.weight, i, getf(p.weight, i) + 1);
    return false;
  }
  return true;
}

// The open buffer of section i with the least low; any one that is at the floor will do.
function lowestOpen(s: Search, i: i32, floor: i32): i32 {
  const members = row(s, s.members, i);
  let least = i32.MAX_VALUE;
  let found = -1;
  for (let w = 0, e = s.words; w < e; w++) {
    let bits = load<u64>(members + ((<usize>w) << 3)) & load<u64>(s.open + ((<usize>w) << 3));
    for (; bits != 0; bits &= bits - 1) {
      const b = (w << 6) + i32(ctz(bits));
      const v = geti(s.low, b);
      s.seen++;
      if (v >= least) continue;
      least = v;
      found = b;
      if (v <= floor) return found;
    }
  }
  return found;
}

/** Puts b at its base. False when something cannot be placed any more; s.above = open neighbours. */
export function place(p: Plan, s: Search, b: i32): bool {
  const top = geti(s.base, b) + geti(s.units, b);
  note(s, PLACED, b, 0);
  puti(s.pos, b, geti(s.base, b));
  const word = s.open + (((<usize>b) >> 6) << 3);
  store<u64>(word, load<u64>(word) & ~((<u64>1) << ((<u64>b) & 63)));
  count(p, s, b, -1);
  begin(s);
  touch(p, s, b);
  s.above = 0;
  const near = row(s, s.near, b);
  for (let w = 0, e = s.words; w < e; w++) {
    let bits = load<u64>(near + ((<usize>w) << 3)) & load<u64>(s.open + ((<usize>w) << 3));
    s.above += i32(popcnt(bits));
    for (; bits != 0; bits &= bits - 1) {
      const c = (w << 6) + i32(ctz(bits));
      const old = geti(s.base, c);
      if (old >= top) continue;
      note(s, BASE, c, old);
      puti(s.base, c, lowest(p, s, c, top));
      if (!raiseLow(p, s, c, top)) return false;
    }
  }
  s.seen += s.above;
  return settle(p, s);
}

/** b will not sit at its base: some open neighbour that starts below its top lies under it. False when there is none. */
export function liftOff(p: Plan, s: Search, b: i32): bool {
  const limit = geti(s.base, b) + geti(s.units, b);
  const near = row(s, s.near, b);
  let least = i32.MAX_VALUE;
  for (let w = 0, e = s.words; w < e; w++) {
    let bits = load<u64>(near + ((<usize>w) << 3)) & load<u64>(s.open + ((<usize>w) << 3));
    for (; bits != 0; bits &= bits - 1) {
      const c = (w << 6) + i32(ctz(bits));
      s.seen++;
      if (geti(s.low, c) < limit) least = min(least, geti(s.low, c) + geti(s.units, c));
    }
  }
  if (least == i32.MAX_VALUE) return false;
  begin(s);
  return raiseLow(p, s, b, least) && settle(p, s);
}
