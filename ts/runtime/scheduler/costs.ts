// What the scheduler reckons with: coarse times of nodes, and of waiting for a device.
//
// The figures decide between whole stretches of a graph, never between single kernels: a factor of two does not matter.

import { Op } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { opDef } from "../../ops/index.ts";
import { nelements } from "../../shape.ts";

/** Operators that read their first source, weights, once per run: as slow as memory when there are few columns. */
const STREAMING: readonly Op[] = [Op.MUL_MAT, Op.MUL_MAT_ID];
/** Floating-point operations per ms of a CPU. */
const CPU_FLOPS = 1e7;
/** Bytes per ms of its memory. */
const CPU_BYTES = 1e7;

/** True for nodes that compute nothing: their result is a view. */
export function isPureView({ tensor }: ProgramNode): boolean {
  return tensor.op <= Op.TRANSPOSE;
}

/** About the time in which the CPU reads so many bytes of weights, ms. */
export function streamMs(nBytes: number): number {
  return nBytes / CPU_BYTES;
}

/** About the time that a node takes on the CPU, ms. */
export function cpuMs({ tensor, src }: ProgramNode): number {
  const flops = opDef(tensor.op).flops?.(tensor, src) ?? nelements(tensor.ne);
  const bytes = STREAMING.includes(tensor.op) ? (src[0]?.nBytes ?? 0) : 0;
  return Math.max(flops / CPU_FLOPS, streamMs(bytes));
}
