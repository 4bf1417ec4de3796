// Plans a program: records into the arena, the planner over them, offsets back to the tensors.

import { Flag, NODE_BYTES, NODE_OFFS, Region } from "../../assembly/abi.ts";
import { type Program, tensorsOf } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Arena } from "./arena.ts";
import type { Backend, Buffer, Planned } from "./backend.ts";
import { holds, type PlanCache, readKey, type StoredPlan, storePlan, writePlan } from "./plan_cache.ts";
import { locate } from "./plan_entries.ts";
import { type GraphPlan, planGraph } from "./planner.ts";
import { bindRecords, chunkSizeOf, recordCount, writeRecords } from "./records.ts";
import { GraphPlanView, totals } from "./plan_view.ts";
import type { Schedule, Split } from "./scheduler/splits.ts";
import type { Exports } from "./wasm.ts";

/** What a program is planned with. */
export interface PlanSettings {
  readonly backends: readonly Backend[];
  /** address in linear memory of a tensor that already has memory there */
  readonly addressOf: (t: Tensor) => number | undefined;
  /** most work, in buffers looked at */
  readonly budget?: number | undefined;
  readonly seed?: number | undefined;
  /** plans made before; without it every call plans anew */
  readonly cache?: PlanCache | undefined;
  /** hears of each plan that is made rather than found */
  readonly made?: ((nTensors: number, nBytes: number, ms: number) => void) | undefined;
}

/** Bytes of the compute buffers of each backend: its chunks. None where nothing runs. */
export type Sizes = readonly (readonly number[])[];

/** Compute buffers of each backend, one a chunk. */
export type Buffers = readonly (readonly Buffer[])[];

/** A planned program and what the user sees of it. */
export interface PlannedProgram {
  readonly schedule: Schedule;
  readonly program: Program;
  /** address of the node records in the arena */
  readonly records: number;
  readonly sizes: Sizes;
  /** what each split is compiled from */
  readonly splits: readonly Planned[];
  readonly plan: GraphPlanView;
  readonly stored: StoredPlan;
  /** takes the places of all planned tensors away */
  unplace(): void;
}

/**
 * Plans memory for a scheduled program. Its records stay in the arena; the caller frees them.
 *
 * @param reserved plans that the program may share when it fits into one of them
 * @throws {GraphError} bad-plan, too-large
 * @throws {DeviceError} out-of-memory
 */
export function planProgram(
  arena: Arena,
  core: Exports,
  schedule: Schedule,
  settings: PlanSettings,
  reserved: readonly StoredPlan[] = [],
): PlannedProgram {
  const { program } = schedule;
  const { backends } = settings;
  const records = arena.alloc(recordCount(program) * NODE_BYTES, Region.RECORDS);
  try {
    writeRecords(arena, records, schedule, backends, settings.addressOf);
    const stored = findOrPlan(arena, core, records, schedule, settings, reserved);
    const sizes = backends.map((_, b) => stored.results[b]?.chunks ?? []);
    return {
      schedule,
      program,
      records,
      sizes,
      splits: schedule.splits.map((split) => plannedSplit(split, records, program, stored)),
      stored,
      plan: new GraphPlanView(program, backends, stored),
      unplace: () => forPlaced(arena, records, program, (t) => t.place(undefined)),
    };
  } catch (error) {
    arena.free(records);
    throw error;
  }
}

function plannedSplit(split: Split, records: number, whole: Program, stored: StoredPlan): Planned {
  const firstRecord = whole.leafs.length + split.first;
  const { chunkSize } = stored.results[split.backend]!;
  return {
    program: split.program,
    records,
    firstRecord,
    scratch: (i) => {
      const offset = stored.scratchOffs[firstRecord + i]!;
      return offset < 0 ? undefined : locate(offset, chunkSize);
    },
  };
}

function findOrPlan(
  arena: Arena,
  core: Exports,
  records: number,
  schedule: Schedule,
  settings: PlanSettings,
  reserved: readonly StoredPlan[],
): StoredPlan {
  const limits = settings.backends.flatMap((b) => [b.bufferType.alignment, chunkSizeOf(b.bufferType)]);
  const key = readKey(arena, records, recordCount(schedule.program), limits);
  const found = settings.cache?.find(key) ?? reserved.find((p) => holds(p, key));
  if (found !== undefined) {
    writePlan(arena, records, found);
    return found;
  }
  const results = planNow(arena, core, records, schedule, settings);
  const made = storePlan(arena, records, key, results);
  const { peak, ms } = totals(results);
  settings.made?.(key.n, peak, ms);
  settings.cache?.add(made);
  return made;
}

// One after the other: each looks at the records of its own buffer only.
function planNow(
  arena: Arena,
  core: Exports,
  records: number,
  { program, splits, bufferOf }: Schedule,
  { backends, budget, seed }: PlanSettings,
): (GraphPlan | undefined)[] {
  const used = new Set(splits.map((split) => split.backend));
  for (const t of program.leafs) if ((t.flags & Flag.EXTERNAL) === 0) used.add(bufferOf(t));
  return backends.map(({ bufferType }, buffer) => {
    if (!used.has(buffer)) return undefined;
    const range = {
      records,
      nLeafs: program.leafs.length,
      nNodes: program.nodes.length,
      buffer,
      alignment: bufferType.alignment,
      chunkSize: chunkSizeOf(bufferType),
      budget,
      seed,
    };
    return planGraph({ memory: arena.memory, exports: core }, range);
  });
}

/**
 * Sets the places of all planned tensors in the backends' buffers, and the addresses in the records of those that lie in
 * the arena.
 */
export function bindProgram(
  arena: Arena,
  { schedule, program, records, stored }: PlannedProgram,
  buffers: Buffers,
  startOf: (buffer: Buffer) => number | undefined,
): void {
  forPlaced(arena, records, program, (t, at) => {
    const b = schedule.bufferOf(t);
    const { chunk, offset } = locate(at, stored.results[b]!.chunkSize);
    t.place({ memory: buffers[b]![chunk]!, offset });
  });
  buffers.forEach(([first], b) => {
    const address = first === undefined ? undefined : startOf(first);
    if (address !== undefined) bindRecords(arena, records, recordCount(program), b, address);
  });
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
