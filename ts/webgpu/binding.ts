// Where the operands of a dispatch are bound: which share a binding, and the windows of buffers that bindings show.
//
// WebGPU's rules for one dispatch: a buffer may be bound several times for reading, or several times for writing where the
// ranges are apart, but not both. Activations all lie in one compute buffer, so what is written decides:
//
//   buffer fits a binding    one binding of the whole buffer, writable when any operand in it is written
//   larger, only read        a window for each operand
//   larger, written          a writable window for each operand; windows that meet become one
//
// Whole buffers make few bind groups: a llama's layers differ only in offsets, which are parameters.

import { DeviceError } from "../errors.ts";
import { alignUp } from "../shape.ts";
import { ALIGN } from "./device.ts";
import type { Bind, Dispatch } from "./kernel.ts";
import type { Binding, Pattern } from "./module.ts";

/** Where an operand lies. */
export interface Place {
  readonly memory: GPUBuffer;
  /** bytes */
  readonly start: number;
  readonly bytes: number;
}

/** Part of a buffer that a binding shows. */
export interface Window {
  readonly memory: GPUBuffer;
  readonly offset: number;
  readonly size: number;
}

/** Bindings of a dispatch. */
export interface Bindings {
  readonly pattern: Pattern;
  readonly windows: readonly Window[];
  /** byte where each operand begins in its binding */
  readonly starts: readonly number[];
}

interface Group {
  readonly memory: GPUBuffer;
  from: number;
  to: number;
  readonly operands: number[];
}

/**
 * Binds the operands of a dispatch.
 *
 * @param limit largest operand, bytes; bindings may be larger by what alignment costs
 * @throws {DeviceError} unsupported when operands that share memory are further apart than a binding reaches
 */
export function bindOperands(dispatch: Dispatch, places: readonly Place[], limit: number): Bindings {
  const groups = places.map((p, i) => groupOf(p, i, limit));
  const merged: Group[] = [];
  for (const memory of new Set(places.map((p) => p.memory))) {
    const here = groups.filter((g) => g.memory === memory);
    const written = here.some((g) => isWritten(dispatch.bind[g.operands[0]!]!));
    merged.push(...(written || memory.size <= limit ? merge(here) : here));
  }
  for (const g of merged) {
    if (g.to - g.from <= limit + 2 * ALIGN) continue; // the limit is that of operands: see Caps
    throw new DeviceError("unsupported", `webgpu: ${dispatch.label}: operands span ${g.to - g.from} bytes`, {
      expected: limit,
      actual: g.to - g.from,
    });
  }
  const operands = places.map((_, i) => merged.findIndex((g) => g.operands.includes(i)));
  return {
    pattern: { operands, bindings: merged.map((g) => bindingOf(dispatch, g, merged)) },
    windows: merged.map((g) => ({ memory: g.memory, offset: g.from, size: g.to - g.from })),
    starts: places.map((p, i) => p.start - merged[operands[i]!]!.from),
  };
}

function groupOf({ memory, start, bytes }: Place, i: number, limit: number): Group {
  if (memory.size <= limit) return { memory, from: 0, to: memory.size, operands: [i] };
  const from = Math.floor(start / ALIGN) * ALIGN;
  return { memory, from, to: Math.max(from + ALIGN, alignUp(start + bytes, ALIGN)), operands: [i] };
}

// Windows of one buffer that meet become one.
function merge(groups: readonly Group[]): Group[] {
  const merged: Group[] = [];
  for (const g of [...groups].sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last === undefined || g.from >= last.to) {
      merged.push({ ...g, operands: [...g.operands] });
    } else {
      last.to = Math.max(last.to, g.to);
      last.operands.push(...g.operands);
    }
  }
  // first operand first: patterns should not depend on where tensors happen to lie
  return merged.sort((a, b) => Math.min(...a.operands) - Math.min(...b.operands));
}

function bindingOf({ bind }: Dispatch, group: Group, all: readonly Group[]): Binding {
  const sameBuffer = all.filter((g) => g.memory === group.memory).flatMap((g) => g.operands);
  return {
    writable: sameBuffer.some((i) => isWritten(bind[i]!)),
    atomic: group.operands.some((i) => bind[i]!.atomic === true && isWritten(bind[i]!)),
  };
}

function isWritten({ access }: Bind): boolean {
  return access === "write";
}
