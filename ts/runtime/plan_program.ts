// Plans a program: records into the arena, the planner over them, offsets back to the tensors.

import { NODE_BYTES, NODE_OFFS, Op, Region } from "../../assembly/abi.ts";
import type { Plan, PlanReport } from "../graph/plan.ts";
import type { Program } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Arena } from "./arena.ts";
import type { Backend, Buffer, Planned } from "./backend.ts";
import { planToSVG } from "./plan_svg.ts";
import {
  holds,
  type PlanCache,
  type PlanKey,
  readKey,
  type StoredPlan,
  storePlan,
  writePlan,
} from "./plan_cache.ts";
import { type GraphPlan, planGraph } from "./planner.ts";
import { recordCount, writeRecords } from "./records.ts";
import { planReport, type ReportSource, reportToText } from "./report.ts";
import type { Exports } from "./wasm.ts";

/** What a program is planned with. */
export interface PlanSettings {
  readonly backend: Backend;
  /** address in linear memory of a tensor that already has memory there */
  readonly addressOf: (t: Tensor) => number | undefined;
  /** most work, in buffers looked at */
  readonly budget?: number | undefined;
  readonly seed?: number | undefined;
  /** plans made before; without it every call plans anew */
  readonly cache?: PlanCache | undefined;
  /** hears of each plan that is made rather than found */
  readonly made?: ((nTensors: number, result: GraphPlan) => void) | undefined;
}

/** A planned program and what the user sees of it. */
export interface PlannedProgram extends Planned {
  readonly plan: GraphPlanView;
  readonly stored: StoredPlan;
  /** takes the places of all planned tensors away */
  unplace(): void;
}

/**
 * Plans memory for a lowered program. Its records stay in the arena; the caller frees them.
 *
 * @param reserved plans that the program may share when it fits into one of them
 * @throws {GraphError} bad-plan, too-large
 * @throws {DeviceError} out-of-memory
 */
export function planProgram(
  arena: Arena,
  core: Exports,
  program: Program,
  settings: PlanSettings,
  reserved: readonly StoredPlan[] = [],
): PlannedProgram {
  const records = arena.alloc(recordCount(program) * NODE_BYTES, Region.RECORDS);
  try {
    writeRecords(arena, records, program, settings.backend, settings.addressOf);
    const stored = findOrPlan(arena, core, records, program, settings, reserved);
    return {
      program,
      records,
      firstRecord: program.leafs.length,
      scratchOffset: (i) => stored.scratchOffs[program.leafs.length + i]!,
      nBytes: stored.result.peak,
      stored,
      plan: new GraphPlanView(program, stored.result, stored.parents),
      unplace: () => forPlaced(arena, records, program, (t) => t.place(undefined)),
    };
  } catch (error) {
    arena.free(records);
    throw error;
  }
}

function findOrPlan(
  arena: Arena,
  core: Exports,
  records: number,
  program: Program,
  settings: PlanSettings,
  reserved: readonly StoredPlan[],
): StoredPlan {
  const key = readKey(arena, records, recordCount(program));
  const found = settings.cache?.find(key) ?? reserved.find((p) => holds(p, key));
  if (found !== undefined) {
    writePlan(arena, records, found);
    return found;
  }
  const made = planNow(arena, core, records, program, settings, key);
  settings.made?.(key.n, made.result);
  settings.cache?.add(made);
  return made;
}

function planNow(
  arena: Arena,
  core: Exports,
  records: number,
  program: Program,
  { backend, budget, seed }: PlanSettings,
  key: PlanKey,
): StoredPlan {
  const range = {
    records,
    nLeafs: program.leafs.length,
    nNodes: program.nodes.length,
    alignment: backend.bufferType.alignment,
    budget,
    seed,
  };
  return storePlan(arena, records, key, planGraph({ memory: arena.memory, exports: core }, range));
}

/** Sets the places of all planned tensors in `buffer`, and the addresses in the records when it lies in the arena. */
export function bindProgram(
  arena: Arena,
  core: Exports,
  planned: PlannedProgram,
  buffer: Buffer,
  address: number | undefined,
): void {
  const { program, records } = planned;
  forPlaced(arena, records, program, (t, offset) => t.place({ memory: buffer, offset }));
  if (address !== undefined) core.bindRecords(records, recordCount(program), 0, address);
}

/** Leafs and nodes, in the order of their records. */
export function tensorsOf(program: Program): Tensor[] {
  return [...program.leafs, ...program.nodes.map((node) => node.tensor)];
}

function forPlaced(
  arena: Arena,
  records: number,
  program: Program,
  use: (t: Tensor, offset: number) => void,
): void {
  const { f64 } = arena;
  tensorsOf(program).forEach((t, i) => {
    const offset = f64[(records + i * NODE_BYTES + NODE_OFFS) / 8]!;
    if (offset >= 0) use(t, offset);
  });
}

/** The plan of one graph. */
export class GraphPlanView implements Plan {
  readonly #program: Program;
  readonly #result: GraphPlan;
  readonly #parents: Int32Array;

  constructor(program: Program, result: GraphPlan, taken: Int32Array) {
    this.#program = program;
    this.#result = result;
    this.#parents = taken;
  }

  get nBytes(): number {
    return this.#result.peak;
  }

  get lowerBound(): number {
    return this.#result.lowerBound;
  }

  /** Peak, largest consumers, who re-uses whom. */
  report(): PlanReport {
    return planReport(this.source());
  }

  toText(): string {
    return reportToText(this.report());
  }

  /** Report and lifetimes as plain data. */
  toJSON(): object {
    return { ...this.report(), entries: this.source().entries };
  }

  toSVG(): string {
    return planToSVG(this.source());
  }

  /** What reports are made from. */
  source(title = "plan"): ReportSource {
    const tensors = tensorsOf(this.#program);
    const names = tensors.map((t, i) => (t.name === "" ? `${Op[t.op]!.toLowerCase()} ${i}` : t.name));
    const takers = this.#takers(names);
    const { peak, lowerBound, sum, optimal, ms } = this.#result;
    const entries = this.#result.entries.map((e) => ({
      name: names[e.record]!,
      lower: e.lower,
      upper: e.upper,
      size: e.size,
      offset: e.offset,
      scratch: e.scratch,
      inPlace: e.scratch ? [] : (takers.get(e.record) ?? []),
    }));
    const nLeafs = this.#program.leafs.length;
    return {
      title,
      peak,
      lowerBound,
      sum,
      optimal,
      ms,
      entries,
      stepName: (step) => names[nLeafs + step] ?? `${step}`,
    };
  }

  // Names of the results that took over the memory of a record, in order.
  #takers(names: readonly string[]): Map<number, string[]> {
    const first = new Map<number, number>();
    const takers = new Map<number, string[]>();
    this.#parents.forEach((parent, i) => {
      if (parent < 0) return;
      const root = first.get(parent) ?? parent;
      first.set(i, root);
      takers.set(root, [...(takers.get(root) ?? []), names[i]!]);
    });
    return takers;
  }
}
