// slackwater/plan: the memory planner by itself, for lists of lifetimes from anywhere. No engine, no threads, no tensors.

import { checkOptions, GraphError } from "./errors.ts";
import type { PlanReport } from "./graph/plan.ts";
import type { Lifetime, LifetimeColumns, PlanOptions } from "./runtime/plan_check.ts";
import type { PlanHost } from "./runtime/plan_host.ts";
import { type BufferPlan, planBuffers } from "./runtime/plan_list.ts";
import { planToSVG } from "./runtime/plan_svg.ts";
import { endToEnd, placeIn, planReport, type ReportSource, reportToText } from "./runtime/report.ts";
import { compileCore, createMemory, instantiate, type WasmOption } from "./runtime/wasm.ts";

export { type DeviceCode, DeviceError, type ErrorDetails, type GraphCode, GraphError } from "./errors.ts";
export type { Lifetime, LifetimeColumns, PlanOptions } from "./runtime/plan_check.ts";
export type { BufferPlan } from "./runtime/plan_list.ts";
export type { ReportEntry, ReportSource } from "./runtime/report.ts";
export type { CoreBuild } from "./runtime/cores.ts";
export type { WasmOption } from "./runtime/wasm.ts";
export type {
  BackendPlan,
  Consumer,
  PeakStep,
  PlanBuffer,
  PlanPlace,
  PlanReport,
  Reuse,
} from "./graph/plan.ts";

/** Options of {@link createPlanner}. */
export interface PlannerOptions {
  /** the core from elsewhere; by default the baseline build inside this package */
  readonly wasm?: WasmOption | undefined;
}

/** A lifetime that may have a name, for reports and pictures. */
export interface NamedLifetime extends Lifetime {
  readonly name?: string | undefined;
}

const START_PAGES = 4;

/**
 * Starts a planner: compiles the core and takes a small memory, which grows with the longest list (about 190 bytes a
 * buffer, and 6 KiB a buffer up to 4096 buffers, where the search runs).
 *
 * @throws {TypeError} for an unknown option
 * @throws {DeviceError} no-simd, bad-wasm, wasm-blocked, out-of-memory
 */
export async function createPlanner(options: PlannerOptions = {}): Promise<Planner> {
  checkOptions("createPlanner", options, ["wasm"]);
  const { module } = await compileCore(options.wasm ?? "simd", false);
  const { memory } = createMemory(START_PAGES, false);
  const exports = instantiate(module, memory);
  exports.regionInit();
  return new Planner({ memory, exports });
}

/** A planner. Plans do not depend on what was planned before. */
export class Planner {
  #host: PlanHost | undefined;

  constructor(host: PlanHost) {
    this.#host = host;
  }

  /**
   * Places buffers so that none that are alive together overlap, in as few bytes as it can find within the budget.
   *
   * @throws {TypeError} for an unknown option
   * @throws {GraphError} bad-plan, too-large, disposed
   * @throws {DeviceError} out-of-memory
   */
  planBuffers(list: readonly NamedLifetime[] | LifetimeColumns, options: PlanOptions = {}): ListPlan {
    if (this.#host === undefined) throw new GraphError("disposed", "planner: disposed");
    return new ListPlan(list, planBuffers(this.#host, list, options));
  }

  /** Lets go of the memory. May be called twice; later use throws. */
  dispose(): void {
    this.#host = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The plan of a list. Offsets are bytes from the start of a buffer's chunk; without `maxChunk` there is one. */
export class ListPlan implements BufferPlan {
  readonly offsets: Float64Array;
  readonly chunkOf: Int32Array;
  readonly chunks: readonly number[];
  readonly peak: number;
  readonly lowerBound: number;
  readonly sum: number;
  readonly optimal: boolean;
  readonly work: number;
  readonly ms: number;
  readonly #list: readonly NamedLifetime[] | LifetimeColumns;

  constructor(list: readonly NamedLifetime[] | LifetimeColumns, plan: BufferPlan) {
    this.#list = list;
    this.offsets = plan.offsets;
    this.chunkOf = plan.chunkOf;
    this.chunks = plan.chunks;
    this.peak = plan.peak;
    this.lowerBound = plan.lowerBound;
    this.sum = plan.sum;
    this.optimal = plan.optimal;
    this.work = plan.work;
    this.ms = plan.ms;
  }

  /** What sets the peak, who fills it, who re-uses whose memory. */
  report(): PlanReport {
    return planReport(this.source());
  }

  /** The report for a terminal. */
  toText(): string {
    return reportToText(this.report());
  }

  /** Report and entries as plain data. */
  toJSON(): PlanReport & Pick<ReportSource, "entries"> {
    return { ...this.report(), entries: this.source().entries };
  }

  /** A picture: x = step, y = offset; chunks stand one on the other. */
  toSVG(title = "memory plan"): string {
    return planToSVG(this.source(title));
  }

  /** What report and picture are made from. */
  source(title = "plan"): ReportSource {
    const { peak, lowerBound, sum, optimal, ms, offsets, chunkOf } = this;
    const buffers = endToEnd(this.chunks.map((nBytes, k) => ({ name: `chunk ${k}`, nBytes })));
    const isOne = buffers.length < 2;
    const none = { name: "", from: 0, nBytes: 0 }; // nothing of the list takes memory
    const entries = Array.from(offsets, (offset, i) => ({
      ...entryOf(this.#list, i),
      ...placeIn(buffers[chunkOf[i] ?? 0] ?? none, offset, isOne),
    }));
    return { title, peak, lowerBound, sum, optimal, ms, entries, ...(isOne ? {} : { buffers }) };
  }
}

function entryOf(
  list: readonly NamedLifetime[] | LifetimeColumns,
  i: number,
): { readonly name: string; readonly lower: number; readonly upper: number; readonly size: number } {
  const name = `buffer ${i}`;
  if ("lower" in list) {
    return { name, lower: list.lower[i] ?? 0, upper: list.upper[i] ?? 0, size: list.size[i] ?? 0 };
  }
  const b = list[i] ?? { lower: 0, upper: 0, size: 0 };
  return { name: b.name ?? name, lower: b.lower, upper: b.upper, size: b.size };
}
