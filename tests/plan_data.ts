// Support for the planner's tests: the wasm without an engine, graphs as records, and an overlap check of its own.
import { readFileSync } from "node:fs";
import * as abi from "../assembly/abi.ts";
import type { PlanExports } from "../ts/runtime/plan_host.ts";
import { planGraph as planRecords } from "../ts/runtime/planner.ts";

/** A tensor of a graph, as in golden/plans. */
export interface Tensor {
  id: number;
  type: string;
  ne: number[];
  nb: number[];
  src: (number | null)[];
  view_src: number | null;
  view_offs: number;
  flags: string[];
  size: number;
  external: boolean;
  can_inplace: boolean;
  scratch?: number;
  buffer?: number;
}

export interface Graph {
  name: string;
  alignment: number;
  n_leafs: number;
  n_nodes: number;
  tensors: Tensor[];
}

/** What the planner wrote into the records, and its figures. */
export interface Planned {
  peak: number;
  lowerBound: number;
  sum: number;
  optimal: boolean;
  work: number;
  offs: number[];
  scratchOffs: number[];
  parent: number[];
}

/** Exports the tests call beside those of a {@link PlanHost}. */
export interface PlanTestExports extends PlanExports {
  regionInit(): void;
  regionBytes(kind: number): number;
}

export interface PlanWasm {
  memory: WebAssembly.Memory;
  exports: PlanTestExports;
}

const module = new WebAssembly.Module(readFileSync(process.env.PLAN_WASM ?? "build/simd.wasm"));

/** A fresh instance over fresh memory. */
export function planWasm(): PlanWasm {
  const memory = new WebAssembly.Memory({ initial: 64, maximum: 65536, shared: true });
  const abort = (): never => {
    throw new Error("abort");
  };
  const instance = new WebAssembly.Instance(module, { env: { memory, abort } });
  const exports = instance.exports as unknown as PlanTestExports;
  exports.regionInit();
  return { memory, exports };
}

/** First byte the tests use: above the static data of any build. */
export const HEAP = 1 << 20;

/** Makes sure that bytes up to `end` are there. */
export function grow(memory: WebAssembly.Memory, end: number): void {
  const need = Math.ceil(end / 65536) - memory.buffer.byteLength / 65536;
  if (need > 0) memory.grow(need);
}

const TYPES: Record<string, number> = { f32: 0, f16: 1, q8_0: 8, i32: 26, i64: 27 };
const FLAGS: Record<string, number> = { input: abi.Flag.INPUT, output: abi.Flag.OUTPUT };

function writeRecord(v: DataView, base: number, t: Tensor, at: number): void {
  const record = (id: number): number => base + id * abi.NODE_BYTES;
  v.setInt32(at + abi.NODE_OP, 1, true);
  v.setInt32(at + abi.NODE_TYPE, TYPES[t.type] ?? 0, true);
  let flags = t.external ? abi.Flag.EXTERNAL : 0;
  if (t.can_inplace) flags |= abi.Flag.INPLACE;
  for (const f of t.flags) flags |= FLAGS[f] ?? 0;
  v.setInt32(at + abi.NODE_FLAGS, flags, true);
  v.setInt32(at + abi.NODE_BUFFER, t.buffer ?? 0, true);
  t.ne.forEach((x, i) => v.setInt32(at + abi.NODE_NE + 4 * i, x, true));
  t.nb.forEach((x, i) => v.setUint32(at + abi.NODE_NB + 4 * i, x, true));
  t.src.forEach((s, i) => v.setUint32(at + abi.NODE_SRC + 4 * i, s === null ? 0 : record(s), true));
  v.setUint32(at + abi.NODE_VIEW_SRC, t.view_src === null ? 0 : record(t.view_src), true);
  v.setFloat64(at + abi.NODE_VIEW_OFFS, t.view_offs, true);
  v.setFloat64(at + abi.NODE_SIZE, t.size, true);
  v.setFloat64(at + abi.NODE_SCRATCH, t.scratch ?? 0, true);
}

/** Writes a graph's records at HEAP; returns the first byte behind them. */
export function writeGraph(memory: WebAssembly.Memory, g: Graph): number {
  const end = HEAP + g.tensors.length * abi.NODE_BYTES;
  grow(memory, end);
  new Uint8Array(memory.buffer).fill(0, HEAP, end);
  const v = new DataView(memory.buffer);
  g.tensors.forEach((t, i) => writeRecord(v, HEAP, t, HEAP + i * abi.NODE_BYTES));
  return (end + 15) & ~15;
}

export interface PlanOptions {
  ggml?: boolean;
  buffer?: number;
  chunk?: number;
  budget?: number;
  seed?: number;
}

/** Plans a graph by an instance; checks that nothing behind the block it took was touched. */
export function planGraph(w: PlanWasm, g: Graph, o: PlanOptions = {}): Planned {
  const behind = writeGraph(w.memory, g);
  const host = { memory: w.memory, exports: oneBlock(w, behind) };
  const range = { records: HEAP, nLeafs: g.n_leafs, nNodes: g.n_nodes, alignment: g.alignment };
  const plan = planRecords(host, { ...range, ...o, chunkSize: o.chunk });
  const v = new DataView(w.memory.buffer);
  const column = (field: number): number[] =>
    g.tensors.map((_, i) => v.getFloat64(HEAP + i * abi.NODE_BYTES + field, true));
  return {
    peak: plan.chunks.length === 1 ? plan.peak : (plan.chunks.length - 1) * o.chunk! + plan.chunks.at(-1)!,
    lowerBound: plan.lowerBound,
    sum: plan.sum,
    optimal: plan.optimal,
    work: plan.work,
    offs: column(abi.NODE_OFFS),
    scratchOffs: column(abi.NODE_SCRATCH_OFFS),
    parent: g.tensors.map((_, i) => v.getInt32(HEAP + i * abi.NODE_BYTES + abi.NODE_PARENT, true)),
  };
}

/** The exports with one block of memory to lend, at `at`: filled with a pattern, and looked behind when it is given back. */
export function oneBlock(w: PlanWasm, at: number): PlanExports {
  let end = 0;
  return {
    ...w.exports,
    regionShortfall: () => 0,
    regionAlloc: (bytes) => {
      end = at + bytes;
      grow(w.memory, end + 64);
      new Uint8Array(w.memory.buffer).fill(0xa5, at, end + 64);
      return at;
    },
    regionFree: () => {
      if (new Uint8Array(w.memory.buffer, end, 64).some((b) => b !== 0xa5))
        throw new Error("workspace overrun");
    },
  };
}

/** Writes and reads of one piece of memory: written at step `first`, again at `writes`, last needed at `last`. */
interface Use {
  id: number;
  first: number;
  last: number;
  offset: number;
  size: number;
}

/**
 * Faults of a plan, found by following what each step writes and who still needs what was there. Knows nothing of how
 * the planner works: no lifetimes, no free lists.
 */
export function faults(g: Graph, p: Planned, buffer = 0): string[] {
  const out: string[] = [];
  const uses = memoryUses(g, p, buffer);
  for (const a of uses) {
    if (a.offset % g.alignment !== 0) out.push(`${a.id}: offset ${a.offset} not aligned`);
    if (a.offset < 0 || a.offset + a.size > p.peak) out.push(`${a.id}: outside the buffer`);
    for (const b of uses) {
      if (a === b || b.first < a.first || b.first > a.last) continue;
      if (a.offset >= b.offset + b.size || b.offset >= a.offset + a.size) continue;
      if (!tookOver(g, p, a, b))
        out.push(`${b.id} overwrites ${a.id} at step ${b.first}, needed until ${a.last}`);
    }
  }
  return out;
}

// b may write where a lies when it computes in place from a (or a view of all of a) and nobody reads a afterwards.
function tookOver(g: Graph, p: Planned, a: Use, b: Use): boolean {
  const t = g.tensors[b.id];
  if (t === undefined || p.parent[b.id] !== a.id || !t.can_inplace) return false;
  if (a.last !== b.first || a.first === b.first || a.offset !== b.offset) return false;
  return t.src.some((s) => {
    const x = s === null ? undefined : g.tensors[s];
    if (x === undefined || (x.id !== a.id && x.view_src !== a.id) || x.view_offs !== 0) return false;
    return x.type === t.type && x.ne.join() === t.ne.join() && x.nb.join() === t.nb.join();
  });
}

function memoryUses(g: Graph, p: Planned, buffer: number): Use[] {
  const steps = Math.max(1, g.n_nodes);
  const read = lastReads(g, steps);
  const uses: Use[] = [];
  for (const t of g.tensors) {
    if ((t.buffer ?? 0) !== buffer) continue;
    const step = t.id - g.n_leafs;
    const placed = !t.external && t.view_src === null;
    if (placed !== p.offs[t.id]! >= 0) throw new Error(`${t.id}: ${placed ? "not placed" : "placed"}`);
    if (placed && t.size > 0)
      uses.push({ id: t.id, first: birth(g, t), last: read[t.id]!, offset: p.offs[t.id]!, size: t.size });
    if (t.scratch)
      uses.push({ id: -1 - t.id, first: step, last: step, offset: p.scratchOffs[t.id]!, size: t.scratch });
  }
  return uses;
}

// Inputs hold data before the first step. Another leaf has its memory from just before the first step that names it.
function birth(g: Graph, t: Tensor): number {
  if (t.flags.includes("input")) return -1;
  if (t.id >= g.n_leafs) return t.id - g.n_leafs;
  const first = g.tensors.findIndex(
    (x) => x.id >= g.n_leafs && x.src.some((s) => s !== null && root(g, s) === t.id),
  );
  return first < 0 ? -1 : first - g.n_leafs - 0.5;
}

function root(g: Graph, id: number): number {
  return g.tensors[id]!.view_src ?? id;
}

// Last step that reads a tensor, directly or through a view; outputs and what nobody reads: the last step of all.
function lastReads(g: Graph, steps: number): number[] {
  const last = g.tensors.map(() => -1);
  const kept = g.tensors.map((t) => t.flags.includes("output"));
  for (const t of g.tensors.slice(g.n_leafs)) {
    for (const s of t.src) if (s !== null && s !== t.id) last[s] = t.id - g.n_leafs;
  }
  const all = g.tensors.map((t) => (kept[t.id] || last[t.id]! < 0 ? steps - 1 : last[t.id]!));
  for (const t of g.tensors)
    if (t.view_src !== null) all[t.view_src] = Math.max(all[t.view_src]!, all[t.id]!);
  return all;
}

/** Faults of a placed list, by looking at every pair. */
export function listFaults(
  list: readonly { lower: number; upper: number; size: number }[],
  offsets: ArrayLike<number>,
  align = 1,
): string[] {
  const out: string[] = [];
  const order = list.map((_, i) => i).sort((a, b) => list[a]!.lower - list[b]!.lower);
  let alive: number[] = [];
  for (const i of order) {
    const b = list[i]!;
    const o = offsets[i]!;
    if (!(o >= 0) || o % align !== 0) out.push(`${i}: offset ${o}`);
    if (b.size === 0 || b.upper <= b.lower) continue;
    alive = alive.filter((j) => list[j]!.upper > b.lower);
    for (const j of alive) {
      if (offsets[j]! < o + b.size && o < offsets[j]! + list[j]!.size) out.push(`${i} overlaps ${j}`);
    }
    alive.push(i);
  }
  return out;
}
