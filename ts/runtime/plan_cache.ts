// Plans made before, found again by wiring and shapes. Two graphs of equal shapes and other wiring never meet.
//
// Wiring: per record, operator, type, flags, buffer, and which records it reads and looks into.
// Extents: per record, ne, nb, view offset, size, scratch.
// Limits: alignment and largest chunk of each backend; a device that is opened anew may have others.
// A plan also serves a graph of the same wiring that is nowhere larger: what shrinks stays inside its place, as long as
// results that took over a source's memory still lie as that source does.

import {
  Flag,
  MAX_SRC,
  NODE_BYTES,
  NODE_FLAGS,
  NODE_NB,
  NODE_NE,
  NODE_OFFS,
  NODE_OP,
  NODE_PARENT,
  NODE_SCRATCH,
  NODE_SCRATCH_OFFS,
  NODE_SIZE,
  NODE_SRC,
  NODE_TYPE,
  NODE_BUFFER,
  NODE_VIEW_OFFS,
  NODE_VIEW_SRC,
} from "../../assembly/abi.ts";
import type { Arena } from "./arena.ts";
import type { GraphPlan } from "./planner.ts";

const WIRES = 5 + MAX_SRC; // op, type, flags, buffer, view, sources
const FLAGS = 2;
const VIEW = 4;
const SOURCES = 5;
const EXTENTS = 11; // ne[4], nb[4], view offset, size, scratch
const VIEW_OFFS = 8;
const SIZE = 9;
const SCRATCH = 10;

/** Records kept at most, about 250 bytes each; beyond that the plan unused for longest goes. */
const RECORDS_MAX = 1 << 17;

/** What a plan depends on. */
export interface PlanKey {
  readonly n: number;
  readonly wiring: Int32Array;
  readonly extents: Float64Array;
  readonly limits: Float64Array;
}

/** A plan that can be written into records once more. */
export interface StoredPlan extends PlanKey {
  /** per backend; undefined where nothing runs */
  readonly results: readonly (GraphPlan | undefined)[];
  readonly offs: Float64Array;
  readonly scratchOffs: Float64Array;
  readonly parents: Int32Array;
}

/** Reads the key of `n` records at `at`, to be planned within `limits`. */
export function readKey(arena: Arena, at: number, n: number, limits: readonly number[]): PlanKey {
  const { i32, u32, f64 } = arena;
  const wiring = new Int32Array(n * WIRES);
  const extents = new Float64Array(n * EXTENTS);
  const index = (address: number): number => (address === 0 ? -1 : (address - at) / NODE_BYTES);
  for (let i = 0; i < n; i++) {
    const base = at + i * NODE_BYTES;
    const w = i * WIRES;
    const e = i * EXTENTS;
    [NODE_OP, NODE_TYPE, NODE_FLAGS, NODE_BUFFER].forEach((f, k) => (wiring[w + k] = i32[(base + f) / 4]!));
    // How rows lie inside a tensor moves no tensor; the scratch it may ask for is among the extents.
    wiring[w + FLAGS]! &= ~Flag.QUADS;
    wiring[w + VIEW] = index(u32[(base + NODE_VIEW_SRC) / 4]!);
    for (let k = 0; k < MAX_SRC; k++) wiring[w + SOURCES + k] = index(u32[(base + NODE_SRC) / 4 + k]!);
    for (let k = 0; k < 4; k++) {
      extents[e + k] = i32[(base + NODE_NE) / 4 + k]!;
      extents[e + 4 + k] = u32[(base + NODE_NB) / 4 + k]!;
    }
    extents[e + VIEW_OFFS] = f64[(base + NODE_VIEW_OFFS) / 8]!;
    extents[e + SIZE] = f64[(base + NODE_SIZE) / 8]!;
    extents[e + SCRATCH] = f64[(base + NODE_SCRATCH) / 8]!;
  }
  return { n, wiring, extents, limits: Float64Array.from(limits) };
}

/** Takes the plan of records out of them. */
export function storePlan(
  arena: Arena,
  at: number,
  key: PlanKey,
  results: StoredPlan["results"],
): StoredPlan {
  const { i32, f64 } = arena;
  const field = (offset: number): Float64Array =>
    Float64Array.from({ length: key.n }, (_, i) => f64[(at + i * NODE_BYTES + offset) / 8]!);
  const parents = Int32Array.from({ length: key.n }, (_, i) => i32[(at + i * NODE_BYTES + NODE_PARENT) / 4]!);
  return { ...key, results, offs: field(NODE_OFFS), scratchOffs: field(NODE_SCRATCH_OFFS), parents };
}

/** Writes a plan into records that have its wiring. */
export function writePlan(arena: Arena, at: number, plan: StoredPlan): void {
  const { i32, f64 } = arena;
  for (let i = 0; i < plan.n; i++) {
    const base = at + i * NODE_BYTES;
    f64[(base + NODE_OFFS) / 8] = plan.offs[i]!;
    f64[(base + NODE_SCRATCH_OFFS) / 8] = plan.scratchOffs[i]!;
    i32[(base + NODE_PARENT) / 4] = plan.parents[i]!;
  }
}

function same(a: Int32Array | Float64Array, b: Int32Array | Float64Array): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

/** Whether `plan` can hold a graph with this key: same wiring, nothing larger, what is in place may be so. */
export function holds(plan: StoredPlan, key: PlanKey): boolean {
  if (!same(plan.wiring, key.wiring) || !same(plan.limits, key.limits)) return false;
  for (let i = 0; i < key.n; i++) {
    const e = i * EXTENTS;
    if (key.extents[e + SIZE]! > plan.extents[e + SIZE]!) return false;
    if (key.extents[e + SCRATCH]! > 0 && plan.scratchOffs[i]! < 0) return false;
    if (key.extents[e + SCRATCH]! > plan.extents[e + SCRATCH]!) return false;
    if (plan.parents[i]! >= 0 && !inPlaceHolds(key, i, plan.parents[i]!)) return false;
  }
  return true;
}

// Result i lies where record `parent` lay: some source that is it, or a view of it from its start, must look the same.
function inPlaceHolds(key: PlanKey, i: number, parent: number): boolean {
  const { wiring, extents } = key;
  for (let k = 0; k < MAX_SRC; k++) {
    const s = wiring[i * WIRES + SOURCES + k]!;
    if (s < 0 || s === i) continue;
    const whole =
      s === parent || (wiring[s * WIRES + VIEW] === parent && extents[s * EXTENTS + VIEW_OFFS] === 0);
    if (!whole || wiring[s * WIRES + 1] !== wiring[i * WIRES + 1]) continue;
    const shape = (r: number): Float64Array => extents.subarray(r * EXTENTS, r * EXTENTS + VIEW_OFFS);
    if (same(shape(s), shape(i))) return true;
  }
  return false;
}

function hash(words: Int32Array): number {
  let h = 0x811c9dc5;
  for (const w of words) h = Math.imul(h ^ w, 0x01000193);
  return h;
}

/** Plans by wiring, the one used last at the end of its list. */
export class PlanCache {
  readonly #plans = new Map<number, StoredPlan[]>();
  #records = 0;

  /** A plan of the same wiring and extents. */
  find(key: PlanKey): StoredPlan | undefined {
    const h = hash(key.wiring);
    const list = this.#plans.get(h) ?? [];
    const i = list.findIndex(
      (p) => same(p.extents, key.extents) && same(p.wiring, key.wiring) && same(p.limits, key.limits),
    );
    if (i < 0) return undefined;
    const plan = list.splice(i, 1)[0]!;
    this.#keepLast(h, list, plan);
    return plan;
  }

  add(plan: StoredPlan): void {
    const h = hash(plan.wiring);
    this.#keepLast(h, this.#plans.get(h) ?? [], plan);
    this.#records += plan.n;
    while (this.#records > RECORDS_MAX && this.#dropOldest(plan));
  }

  #keepLast(h: number, list: StoredPlan[], plan: StoredPlan): void {
    list.push(plan);
    this.#plans.delete(h); // to the end of the map's order
    this.#plans.set(h, list);
  }

  #dropOldest(kept: StoredPlan): boolean {
    const [h, list] = this.#plans.entries().next().value!;
    if (list[0] === kept) return false;
    this.#records -= list.shift()!.n;
    if (list.length === 0) this.#plans.delete(h);
    return true;
  }
}
