// Plans a program: records into the arena, the planner over them, offsets back to the tensors.

import {
  NODE_BYTES,
  NODE_OFFS,
  PLAN_BYTES,
  PLAN_COUNT,
  PLAN_LOWER,
  PLAN_LOWER_BOUND,
  PLAN_OFFSET,
  PLAN_OPTIMAL,
  PLAN_OWNER,
  PLAN_PEAK,
  PLAN_RESULT_BYTES,
  PLAN_SCRATCH,
  PLAN_SUM,
  PLAN_UPPER,
  PlanStatus,
  Region,
} from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import type { Plan } from "../graph/graph.ts";
import type { Program } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Arena } from "./arena.ts";
import type { Buffer, BufferType, Planned } from "./backend.ts";
import { recordCount, writeRecords } from "./records.ts";
import type { Exports } from "./wasm.ts";

/** Work the exact search may do when the quick passes miss the lower bound, in buffers looked at: some milliseconds. */
const BUDGET = 200_000;
const SEED = 1;

/** A planned program and what the user sees of it. */
export interface PlannedProgram extends Planned {
  readonly plan: Plan;
  /** takes the places of all planned tensors away */
  unplace(): void;
}

/**
 * Plans memory for a lowered program. Its records stay in the arena; the caller frees them.
 *
 * @param addressOf address in linear memory of a tensor that already has memory there
 * @throws {GraphError} bad-plan, too-large
 * @throws {DeviceError} out-of-memory
 */
export function planProgram(
  arena: Arena,
  core: Exports,
  program: Program,
  type: BufferType,
  nThreads: number,
  addressOf: (t: Tensor) => number | undefined,
): PlannedProgram {
  const n = recordCount(program);
  const records = arena.alloc(n * NODE_BYTES, Region.RECORDS);
  try {
    writeRecords(arena, records, program, nThreads, addressOf);
    const start = performance.now();
    const result = runPlanner(arena, core, records, program, type.alignment);
    const ms = performance.now() - start;
    const tensors = [...program.leafs, ...program.nodes.map((node) => node.tensor)];
    return {
      program,
      records,
      nBytes: result.peak,
      plan: describe(program, result, ms),
      unplace: () => tensors.forEach((t, i) => arena.f64[(records + i * NODE_BYTES + NODE_OFFS) / 8]! >= 0 && t.place(undefined)),
    };
  } catch (error) {
    arena.free(records);
    throw error;
  }
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
  const tensors = [...program.leafs, ...program.nodes.map((node) => node.tensor)];
  tensors.forEach((tensor, i) => {
    const offset = arena.f64[(records + i * NODE_BYTES + NODE_OFFS) / 8]!;
    if (offset >= 0) tensor.place({ memory: buffer, offset });
  });
  if (address !== undefined) core.bindRecords(records, tensors.length, 0, address);
}

/** One planned piece of memory: a tensor, or the scratch of a node. Steps are node indices, leafs at 0. */
export interface Lifetime {
  /** index of the record, leafs first */
  readonly record: number;
  readonly scratch: boolean;
  /** first step alive */
  readonly lower: number;
  /** first step no longer alive */
  readonly upper: number;
  /** padded bytes */
  readonly nBytes: number;
  readonly offset: number;
}

interface PlanResult {
  readonly peak: number;
  readonly lowerBound: number;
  readonly sum: number;
  readonly scratch: number;
  readonly optimal: boolean;
  readonly lifetimes: readonly Lifetime[];
}

function runPlanner(arena: Arena, core: Exports, records: number, program: Program, align: number): PlanResult {
  const n = recordCount(program);
  const work = arena.alloc(core.planRecordsWorkspace(records, n) + PLAN_RESULT_BYTES, Region.SCRATCH);
  try {
    const status = core.planRecords(
      records,
      program.leafs.length,
      program.nodes.length,
      0,
      align,
      BUDGET,
      SEED,
      work + PLAN_RESULT_BYTES + (16 - (PLAN_RESULT_BYTES % 16)) % 16,
      work,
    );
    if (status !== PlanStatus.OK) {
      throw new GraphError("bad-plan", `plan: ${PlanStatus[status]!.toLowerCase().replace("_", " ")}`);
    }
    return readResult(arena, work);
  } finally {
    arena.free(work);
  }
}

function readResult(arena: Arena, at: number): PlanResult {
  const { i32, f64 } = arena;
  const cell = (offset: number): number => f64[(at + offset) / 8]!;
  const table = (offset: number): number => cell(offset);
  const lifetimes: Lifetime[] = [];
  for (let i = 0; i < cell(PLAN_COUNT); i++) {
    const owner = i32[table(PLAN_OWNER) / 4 + i]!;
    lifetimes.push({
      record: owner < 0 ? ~owner : owner,
      scratch: owner < 0,
      lower: i32[table(PLAN_LOWER) / 4 + i]!,
      upper: i32[table(PLAN_UPPER) / 4 + i]!,
      nBytes: f64[table(PLAN_BYTES) / 8 + i]!,
      offset: f64[table(PLAN_OFFSET) / 8 + i]!,
    });
  }
  return {
    peak: cell(PLAN_PEAK),
    lowerBound: cell(PLAN_LOWER_BOUND),
    sum: cell(PLAN_SUM),
    scratch: cell(PLAN_SCRATCH),
    optimal: cell(PLAN_OPTIMAL) === 1,
    lifetimes,
  };
}

function describe(program: Program, result: PlanResult, ms: number): Plan {
  void program;
  return {
    nBytes: result.peak,
    lowerBound: result.lowerBound,
    toText: () => "",
    toJSON: () => ({ ...result, ms }),
    toSVG: () => "",
  };
}
