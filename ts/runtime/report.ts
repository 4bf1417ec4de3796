// A plan to look at: what sets the peak, who fills it, who re-uses whose memory. Text and JSON; the picture is in
// plan_svg.ts.

import { checkOptions } from "../errors.ts";
import type { Consumer, PeakStep, PlanBuffer, PlanPlace, PlanReport, Reuse } from "../graph/plan.ts";

/** A tensor's memory, or the scratch of a step. */
export interface ReportEntry {
  readonly name: string;
  /** alive in steps [lower, upper) */
  readonly lower: number;
  readonly upper: number;
  readonly size: number;
  readonly offset: number;
  /** the same in its buffer, when there are several */
  readonly within?: PlanPlace;
  readonly scratch?: boolean;
  /** names of results that took the memory over in place, in order */
  readonly inPlace?: readonly string[];
}

/** What the report is made from. */
export interface ReportSource {
  readonly title?: string;
  readonly peak: number;
  readonly lowerBound: number;
  /** bytes of all tensors without re-use, scratch apart */
  readonly sum: number;
  readonly optimal: boolean;
  readonly ms: number;
  readonly entries: readonly ReportEntry[];
  /** buffers that offsets count on through, when there are several */
  readonly buffers?: readonly PlanBuffer[];
  /** name of a step, when steps have names */
  readonly stepName?: (step: number) => string;
}

export interface ReportOptions {
  /** most consumers and re-uses listed; 12 by default */
  readonly top?: number;
}

// Beyond this many entries re-use is not traced: nobody reads it, and tracing is quadratic at worst.
const REUSE_MAX = 20000;

/** Bytes alive from a step on. */
export interface AlivePoint {
  readonly step: number;
  readonly bytes: number;
}

/** Bytes alive, at the steps where that changes, ascending. */
export function aliveBytes(entries: readonly ReportEntry[]): AlivePoint[] {
  const change = new Map<number, number>();
  for (const e of entries) {
    if (e.upper <= e.lower) continue;
    change.set(e.lower, (change.get(e.lower) ?? 0) + e.size);
    change.set(e.upper, (change.get(e.upper) ?? 0) - e.size);
  }
  let bytes = 0;
  return [...change.keys()]
    .sort((a, b) => a - b)
    .map((step) => {
      bytes += change.get(step) ?? 0;
      return { step, bytes };
    });
}

/** Buffers laid end to end. */
export function endToEnd(buffers: readonly Omit<PlanBuffer, "from">[]): PlanBuffer[] {
  let from = 0;
  return buffers.map(({ name, nBytes }) => {
    const buffer = { name, from, nBytes };
    from += nBytes;
    return buffer;
  });
}

/** The place of what lies at `offset` of a buffer; it is said to lie within one only when there are several. */
export function placeIn(
  { name, from }: PlanBuffer,
  offset: number,
  isOne: boolean,
): Pick<ReportEntry, "offset" | "within"> {
  const at = { offset: from + offset };
  return isOne ? at : { ...at, within: { buffer: name, offset } };
}

/** Puts a plan's figures together. */
export function planReport(source: ReportSource, options: ReportOptions = {}): PlanReport {
  checkOptions("planReport", options, ["top"]);
  const top = options.top ?? 12;
  const { entries } = source;
  const peakStep = findPeakStep(source);
  return {
    title: source.title ?? "plan",
    peak: source.peak,
    lowerBound: source.lowerBound,
    sum: source.sum,
    ms: source.ms,
    optimal: source.optimal,
    ...(source.buffers && { buffers: source.buffers }),
    offsets: entries.map((e) => e.offset),
    nEntries: entries.length,
    nSteps: entries.reduce((m, e) => Math.max(m, e.upper), 0),
    saved: Math.max(0, source.sum - source.peak),
    peakStep,
    scratch: entries.reduce((m, e) => (e.scratch ? Math.max(m, e.size) : m), 0),
    consumers: consumersAt(entries, peakStep.step).slice(0, top),
    reuse: entries.length > REUSE_MAX ? [] : traceReuse(entries).slice(0, top),
  };
}

function findPeakStep(s: ReportSource): PeakStep {
  const tops = new Set(s.buffers?.map((b) => b.from + b.nBytes) ?? [s.peak]);
  const reaching = s.entries.filter((e) => e.size > 0 && tops.has(e.offset + e.size));
  let best = { step: 0, bytes: 0 };
  for (const a of aliveBytes(s.entries)) {
    if (a.bytes > best.bytes && reaching.some((e) => e.lower <= a.step && a.step < e.upper)) best = a;
  }
  const scratch = s.entries.reduce((sum, e) => (e.scratch && e.lower === best.step ? sum + e.size : sum), 0);
  return { step: best.step, name: s.stepName?.(best.step) ?? "", alive: best.bytes, scratch };
}

function consumersAt(entries: readonly ReportEntry[], step: number): Consumer[] {
  return entries
    .filter((e) => e.size > 0 && e.lower <= step && step < e.upper)
    .map((e) => ({
      name: e.name,
      size: e.size,
      offset: e.offset,
      ...(e.within && { within: e.within }),
      lower: e.lower,
      upper: e.upper,
      scratch: e.scratch === true,
    }))
    .sort((a, b) => b.size - a.size || a.offset - b.offset);
}

/** A stretch of memory and who had it last. */
interface Stretch {
  from: number;
  to: number;
  name: string;
}

// Walks the entries in order of birth over a sorted list of stretches.
function traceReuse(entries: readonly ReportEntry[]): Reuse[] {
  const memory: Stretch[] = [];
  const out: Reuse[] = [];
  const born = entries.filter((e) => e.size > 0).sort((a, b) => a.lower - b.lower);
  for (const e of born) {
    const previous = [...new Set(occupy(memory, e)), ...(e.inPlace ?? []).map((x) => `${x} (in place)`)];
    if (previous.length > 0) out.push({ name: e.name, size: e.size, previous });
  }
  return out.sort((a, b) => b.size - a.size);
}

// Gives e its memory; returns who had it before.
function occupy(memory: Stretch[], e: ReportEntry): string[] {
  const [from, to] = [e.offset, e.offset + e.size];
  let first = memory.findIndex((s) => s.to > from);
  if (first < 0) first = memory.length;
  let end = first;
  while (end < memory.length && (memory[end]?.from ?? to) < to) end++;
  const old = memory.slice(first, end);
  const kept: Stretch[] = [{ from, to, name: e.name }];
  const [head, tail] = [old[0], old.at(-1)];
  if (head && head.from < from) kept.unshift({ ...head, to: from });
  if (tail && tail.to > to) kept.push({ ...tail, from: to });
  memory.splice(first, end - first, ...kept);
  return old.map((s) => s.name);
}

/** `12,345,678 B`. */
export function formatExact(bytes: number): string {
  return `${bytes.toLocaleString("en-US")} B`;
}

/** `11.8 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (bytes >= 1024 && i < units.length - 1) {
    bytes /= 1024;
    i++;
  }
  return `${i === 0 ? bytes : bytes.toPrecision(3)} ${units[i] ?? ""}`;
}

function percent(part: number, whole: number): string {
  return whole === 0 ? "0 %" : `${((100 * part) / whole).toFixed(1)} %`;
}

/** The report as text for a terminal. */
export function reportToText(r: PlanReport): string {
  const below = `${percent(r.peak - r.lowerBound, r.peak)} below`;
  const proved = r.optimal ? "; a complete search found no smaller plan" : "";
  const gap = r.peak === r.lowerBound ? "reached: no plan is smaller" : below + proved;
  const step = r.peakStep.name === "" ? "" : ` (${r.peakStep.name})`;
  const lines = [
    `${r.title}: ${formatBytes(r.peak)} for ${r.nEntries} buffers over ${r.nSteps} steps, planned in ${r.ms.toFixed(2)} ms`,
    `  peak         ${formatExact(r.peak)}, set by step ${r.peakStep.step}${step}, ${formatExact(r.peakStep.alive)} alive`,
    `  lower bound  ${formatExact(r.lowerBound)}, ${gap}`,
    `  no re-use    ${formatExact(r.sum)}, ${percent(r.saved, r.sum)} saved`,
  ];
  if (r.scratch > 0)
    lines.push(
      `  scratch      ${formatExact(r.scratch)} at most, ${formatExact(r.peakStep.scratch)} at the peak`,
    );
  if (r.consumers.length > 0)
    lines.push("", `  alive at step ${r.peakStep.step}:`, ...r.consumers.map((c) => consumerLine(c, r)));
  if (r.reuse.length > 0) lines.push("", "  largest re-uses:", ...r.reuse.map(reuseLine));
  return lines.join("\n");
}

function consumerLine(c: Consumer, r: PlanReport): string {
  const size = formatExact(c.size).padStart(20);
  const share = percent(c.size, r.peakStep.alive).padStart(7);
  return `  ${size} ${share}  [${c.lower}, ${c.upper}) at ${formatPlace(c)}  ${c.name}${c.scratch ? " (scratch)" : ""}`;
}

/** `1024`, or `1024 of webgpu 0` where there are several buffers. */
export function formatPlace({ offset, within }: Pick<ReportEntry, "offset" | "within">): string {
  return within === undefined ? `${offset}` : `${within.offset} of ${within.buffer}`;
}

function reuseLine(u: Reuse): string {
  const shown = u.previous.slice(0, 3).join(", ");
  const more = u.previous.length > 3 ? ` and ${u.previous.length - 3} more` : "";
  return `  ${formatExact(u.size).padStart(20)}  ${u.name} lies where ${shown}${more} lay`;
}
