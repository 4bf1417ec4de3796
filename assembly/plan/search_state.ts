// State of the exact search and its elementary moves: place, lift, undo. See search.ts for the idea.
//
// All heights are i32 multiples of `unit`, the greatest common divisor of the sizes (and of what else offsets can be). Neighbourhoods and sections are
// bit rows, so that "neighbours still open" is one AND; a list of 4096 has 64 words a row and 2 MiB of each kind.

import { ITEM_BYTES, SEARCH_BYTES, SECTION_BYTES } from "../abi";
import { lowestFor } from "./ground";
import { bufferAt, geti, Plan, puti } from "./work";

// Most units a capacity may have: sums of two heights stay below 2^31.
const UNITS_MAX: f64 = 1073741823;

/** A buffer. */
@unmanaged
export class Item {
  score: f64;
  noise: f64;
  units: i32;
  /** top of what lies below it */
  base: i32;
  /** proven bound on its offset, >= base */
  low: i32;
  /** offset, or -1 while open */
  pos: i32;
  /** its sections, addresses [first, end) */
  first: usize;
  end: usize;
  /** bit row: the buffers it meets */
  near: usize;
  index: i32;
}

/** A set of buffers alive together. */
@unmanaged
export class Section {
  /** units still to be placed */
  rest: i32;
  /** open buffers that go on into the next section */
  crossing: i32;
  /** least low of its open buffers */
  floor: i32;
  /** the open buffer that has it */
  witness: Item | null;
  /** round in which it was last among the dirty */
  mark: i32;
  /** buffers that can sit at the height in hand, 0 between nodes */
  cover: i32;
  /** bit row: its buffers */
  members: usize;
  /** address of its f64 in p.weight */
  weight: usize;
}

/** From one section to the next, bytes. */
export const SECTION: usize = SECTION_BYTES;

if (offsetof<Section>() != SECTION_BYTES) ERROR("abi.ts: SECTION_BYTES");
if (offsetof<Item>() != ITEM_BYTES) ERROR("abi.ts: ITEM_BYTES");


@unmanaged
export class Search {
  items: usize;
  sections: usize;
  /** sections that need another look */
  dirty: usize;
  /** bit row: buffers not placed */
  open: usize;
  /** {address, i32 that was there} pairs; an odd address: the Item before it was placed */
  trail: usize;
  /** lists of open items, one behind the other */
  lists: usize;
  frames: usize;
  /** bit rows of sections and items */
  rows: usize;

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
  nDirty: i32;
  stamp: i32;
  nTrail: i32;
  nLists: i32;
  nFrames: i32;
  /** list in hand: lists[l..r), and how many of it are open */
  l: i32;
  r: i32;
  left: i32;

  /** sections that failed often come first */
  blame: bool;
  /** what a gap counts when sections are compared by need; -1: they are not */
  slack: i32;
}

if (offsetof<Search>() != SEARCH_BYTES) ERROR("abi.ts: SEARCH_BYTES");

/** Sets up the search, or returns null when the list is too large or too fine. */
export function searchInit(p: Plan): Search | null {
  if (p.search == 0 || p.best / p.unit > UNITS_MAX) return null;
  const s = changetype<Search>(p.search);
  const words = (p.n + 63) >> 6;
  // The arrays are the first fields, as in the header.
  memory.copy(
    p.search,
    changetype<usize>(p) + offsetof<Plan>("items"),
    offsetof<Search>("rows") + sizeof<usize>(),
  );
  s.words = words;
  s.unit = p.unit;
  s.run = 0;
  const bytes = (<usize>words) << 3;
  memory.fill(s.rows, 0, <usize>(p.n + p.m) * bytes);
  fillItems(p, s, s.rows, bytes);
  return s;
}

// Lowest allowed height of b from v on; at most UNITS_MAX, which is above every capacity.
function lowest(p: Plan, s: Search, b: Item, v: i32): i32 {
  if (p.plain) return v;
  return i32(min(lowestFor(p, b.index, f64(v) * s.unit) / s.unit, UNITS_MAX));
}

/** Buffer by its index. */
@inline
export function itemOf(s: Search, i: i32): Item {
  return changetype<Item>(s.items + <usize>i * ITEM_BYTES);
}

/** Entry of the lists. */
@inline
export function listed(s: Search, i: i32): Item {
  return changetype<Item>(geti(s.lists, i));
}

function sectionOf(s: Search, i: i32): usize {
  return s.sections + <usize>i * SECTION;
}

/** Turns a bit over. */
function flip(bits: usize, i: i32): void {
  const at = bits + (((<usize>i) >> 6) << 3);
  store<u64>(at, load<u64>(at) ^ ((<u64>1) << ((<u64>i) & 63)));
}

function fillItems(p: Plan, s: Search, row: usize, bytes: usize): void {
  for (let i = 0; i < p.m; i++) {
    const q = changetype<Section>(sectionOf(s, i));
    q.members = row;
    q.weight = p.weight + ((<usize>i) << 3);
    row += bytes;
  }
  for (let i = 0; i < p.n; i++) {
    const b = itemOf(s, i);
    const x = bufferAt(p, i);
    b.index = i;
    b.units = i32(x.size / s.unit);
    b.first = sectionOf(s, x.c0);
    b.end = sectionOf(s, x.c1);
    b.near = row;
    row += bytes;
    for (let q = b.first; q < b.end; q += SECTION) flip(changetype<Section>(q).members, i);
    for (let j = 0; j < i; j++) {
      const c = itemOf(s, j);
      if (c.first >= b.end || b.first >= c.end) continue;
      flip(b.near, j);
      flip(c.near, i);
    }
  }
}

/** Everything open again. False when a section or a buffer alone is above `capacity`. */
export function searchReset(p: Plan, s: Search, capacity: f64): bool {
  const n = p.n;
  const end = sectionOf(s, p.m);
  s.cap = i32(Math.floor(capacity / s.unit));
  s.nTrail = 0;
  s.nFrames = 0;
  s.nLists = n;
  s.nodes = 0;
  s.stamp = 0;
  for (let q = s.sections; q < end; q += SECTION) memory.fill(q, 0, offsetof<Section>("members"));
  memory.fill(s.open, 0, (<usize>s.words) << 3);
  for (let i = 0; i < n; i++) {
    const b = itemOf(s, i);
    const ground = lowest(p, s, b, 0);
    if (ground + b.units > s.cap) return false;
    puti(s.lists, i, <i32>changetype<usize>(b));
    b.base = ground;
    b.low = ground;
    reopen(s, b);
  }
  for (let q = s.sections; q < end; q += SECTION) {
    if (changetype<Section>(q).rest > s.cap) return false;
  }
  return true;
}

// b joins (k = 1) or leaves (k = -1) what is still to be placed.
function count(s: Search, b: Item, k: i32): void {
  flip(s.open, b.index);
  const units = b.units * k;
  const last = b.end - SECTION;
  for (let at = b.first; at <= last; at += SECTION) {
    const q = changetype<Section>(at);
    q.rest += units;
    if (at < last) q.crossing += k;
  }
}

function reopen(s: Search, b: Item): void {
  b.pos = -1;
  count(s, b, 1);
}

// Writes v at an address and notes what was there.
function set(s: Search, at: usize, v: i32): void {
  note(s, at, load<i32>(at));
  store<i32>(at, v);
}

function note(s: Search, at: usize, old: i32): void {
  const entry = s.trail + ((<usize>s.nTrail) << 3);
  s.nTrail++;
  store<usize>(entry, at);
  store<i32>(entry, old, 4);
}

/** Takes back everything noted after entry `to`. */
export function undo(s: Search, to: i32): void {
  while (s.nTrail > to) {
    s.nTrail--;
    const entry = s.trail + ((<usize>s.nTrail) << 3);
    const at = load<usize>(entry);
    if (at & 1) reopen(s, changetype<Item>(at - 1));
    else store<i32>(at, load<i32>(entry, 4));
  }
}

/** Opens a round of changes; settle() closes it. */
export function begin(s: Search): void {
  s.stamp++;
  s.nDirty = 0;
}

// The sections whose witness is b need another look.
function touch(s: Search, b: Item): void {
  for (let at = b.first; at < b.end; at += SECTION) {
    const q = changetype<Section>(at);
    const w = q.witness;
    if ((w != b && w != null) || q.mark == s.stamp) continue;
    q.mark = s.stamp;
    puti(s.dirty, s.nDirty++, <i32>at);
  }
}

/** Raises the bound of b to v; false when b cannot stay below the capacity. */
export function raiseLow(p: Plan, s: Search, b: Item, v: i32): bool {
  if (b.low >= v) return true;
  v = lowest(p, s, b, v);
  set(s, changetype<usize>(b) + offsetof<Item>("low"), v);
  if (v + b.units > s.cap) return false;
  touch(s, b);
  return true;
}

/** Looks again at the touched sections; false when what is left of one does not fit above its floor. */
export function settle(s: Search): bool {
  for (let k = 0; k < s.nDirty; k++) {
    const q = changetype<Section>(geti(s.dirty, k));
    if (q.rest == 0) continue;
    const old = q.floor;
    const w = lowestOpen(s, q.members, old);
    if (w != q.witness)
      set(s, changetype<usize>(q) + offsetof<Section>("witness"), <i32>changetype<usize>(w));
    const v = w.low;
    if (v <= old) continue;
    set(s, changetype<usize>(q) + offsetof<Section>("floor"), v);
    if (v + q.rest <= s.cap) continue;
    store<f64>(q.weight, load<f64>(q.weight) + 1);
    return false;
  }
  return true;
}

// The open buffer of a row with the least low; any one that is at the floor will do. There is one.
function lowestOpen(s: Search, members: usize, floor: i32): Item {
  let least = i32.MAX_VALUE;
  let found = changetype<Item>(0);
  for (let w = 0, e = s.words; w < e; w++) {
    let bits = load<u64>(members + ((<usize>w) << 3)) & load<u64>(s.open + ((<usize>w) << 3));
    for (; bits != 0; bits &= bits - 1) {
      const b = itemOf(s, (w << 6) + i32(ctz(bits)));
      const v = b.low;
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
export function place(p: Plan, s: Search, b: Item): bool {
  const top = b.base + b.units;
  note(s, changetype<usize>(b) + 1, 0);
  b.pos = b.base;
  count(s, b, -1);
  begin(s);
  touch(s, b);
  s.above = 0;
  for (let w = 0, e = s.words; w < e; w++) {
    let bits = load<u64>(b.near + ((<usize>w) << 3)) & load<u64>(s.open + ((<usize>w) << 3));
    s.above += i32(popcnt(bits));
    for (; bits != 0; bits &= bits - 1) {
      const c = itemOf(s, (w << 6) + i32(ctz(bits)));
      if (c.base >= top) continue;
      set(s, changetype<usize>(c) + offsetof<Item>("base"), lowest(p, s, c, top));
      if (!raiseLow(p, s, c, top)) return false;
    }
  }
  s.seen += s.above;
  return settle(s);
}

/** b will not sit at its base: some open neighbour that starts below its top lies under it. False when there is none. */
export function liftOff(p: Plan, s: Search, b: Item): bool {
  const limit = b.base + b.units;
  let least = i32.MAX_VALUE;
  for (let w = 0, e = s.words; w < e; w++) {
    let bits = load<u64>(b.near + ((<usize>w) << 3)) & load<u64>(s.open + ((<usize>w) << 3));
    for (; bits != 0; bits &= bits - 1) {
      const c = itemOf(s, (w << 6) + i32(ctz(bits)));
      s.seen++;
      if (c.low < limit) least = min(least, c.low + c.units);
    }
  }
  if (least == i32.MAX_VALUE) return false;
  begin(s);
  return raiseLow(p, s, b, least) && settle(s);
}
