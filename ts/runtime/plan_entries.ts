// What a plan put where: copied column by column out of the workspace, made into entries when somebody asks for them.

import { PlanArray } from "../../assembly/abi.ts";
import type { PlanSpace } from "./plan_space.ts";

/** A buffer of a graph's plan: a tensor (with all that took its memory over in place) or the scratch of one step. */
export interface PlanEntry {
  /** alive in steps [lower, upper) */
  readonly lower: number;
  readonly upper: number;
  readonly size: number;
  /** bytes from the start of its chunk */
  readonly offset: number;
  readonly chunk: number;
  /** index of the record it was made for */
  readonly record: number;
  readonly scratch: boolean;
}

/** Where in which chunk an offset of the records lies. */
export interface ChunkPlace {
  readonly chunk: number;
  readonly offset: number;
}

/** Finds the place of an offset; `chunkSize` may be Infinity. */
export function locate(offset: number, chunkSize: number): ChunkPlace {
  return { chunk: Math.floor(offset / chunkSize), offset: offset % chunkSize };
}

/** One element per entry. Columns, since a thousand objects made at once are most of a short plan's time. */
export interface EntryColumns {
  readonly lower: Int32Array;
  readonly upper: Int32Array;
  readonly size: Float64Array;
  /** counts on through the chunks */
  readonly offset: Float64Array;
  /** the record; of a scratch its complement */
  readonly owner: Int32Array;
}

/** Copies the first `n` entries. */
export function copyColumns(s: PlanSpace, n: number): EntryColumns {
  return {
    lower: s.ints(PlanArray.LOWER, n).slice(),
    upper: s.ints(PlanArray.UPPER, n).slice(),
    size: s.floats(PlanArray.BYTES, n).slice(),
    offset: s.floats(PlanArray.OFFSET, n).slice(),
    owner: s.ints(PlanArray.OWNER, n).slice(),
  };
}

/** The entries as objects. */
export function entriesOf(
  { lower, upper, size, offset, owner }: EntryColumns,
  chunkSize: number,
): PlanEntry[] {
  return Array.from(owner, (o, i) => ({
    lower: lower[i]!,
    upper: upper[i]!,
    size: size[i]!,
    ...locate(offset[i]!, chunkSize),
    record: o < 0 ? ~o : o,
    scratch: o < 0,
  }));
}

/** Largest scratch of a step, bytes. */
export function mostScratch({ owner, size }: EntryColumns): number {
  let most = 0;
  for (let i = 0; i < owner.length; i++) if (owner[i]! < 0) most = Math.max(most, size[i]!);
  return most;
}

/** Bytes of each chunk up to `peak`: as many as what lies in it needs. */
export function chunkBytes({ size, offset }: EntryColumns, peak: number, chunkSize: number): number[] {
  const chunks = Array.from({ length: Math.ceil(peak / chunkSize) }, () => 0);
  size.forEach((bytes, i) => {
    if (bytes === 0) return;
    const at = locate(offset[i]!, chunkSize);
    chunks[at.chunk] = Math.max(chunks[at.chunk]!, at.offset + bytes);
  });
  return chunks;
}
