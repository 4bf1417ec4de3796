// Where threads must meet within a planned program, and which nodes are too small to be shared out.
//
// Threads walk the nodes without waiting for each other until a node would touch bytes that another one since their last
// meeting wrote, or write bytes that it read. Bytes, not tensors, decide: the planner may have put a result where a tensor
// lay that a slower thread still reads. Small nodes are thread 0's alone: among themselves they need no meeting.
//
//   q = wq x | k = wk x | v = wv x   MEET   rope q (solo), rope k (solo), set_rows (solo)   MEET   attention

import {
  Flag,
  GROUP_MAX,
  MAX_SRC,
  NODE_BYTES,
  NODE_DATA,
  NODE_FLAGS,
  NODE_SCRATCH,
  NODE_SCRATCH_DATA,
  NODE_SIZE,
  NODE_SRC,
  Op,
} from "../../assembly/abi.ts";
import { edgesOf } from "../graph/order.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import { opDef } from "../ops/index.ts";
import { nelements } from "../shape.ts";
import type { Arena } from "./arena.ts";

/** Work up to which one thread is done before a meeting of threads would be, in elements of a simple operator. */
export const SOLO_WORK = 8192;
/** Work from which a product is shared out although it is small, beside a larger one: that costs no meeting. */
const SIDE_WORK = 2048;
/** Columns up to which products of the same activations are moved side by side; with more a meeting does not matter. */
const BESIDE_COLUMNS = 4;

const PRODUCTS: readonly Op[] = [Op.MUL_MAT, Op.MUL_MAT_ID, Op.FLASH_ATTN_EXT];
/** Operators that cost little more than the memory they touch. */
const SIMPLE: readonly Op[] = [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.SCALE, Op.SQR, Op.CLAMP, Op.CONT, Op.DUP];

/** Bytes [from, to) of linear memory. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/** What a node touches. */
interface Access {
  readonly solo: boolean;
  readonly op: Op;
  readonly reads: readonly Range[];
  readonly result: Range;
  /** each thread has its own part, cut by size alone */
  readonly scratch: Range;
}

/** Estimated work of a node, in elements of a simple operator. Lengths that are data count as the longest. */
export function workOf({ tensor, src }: ProgramNode): number {
  if (PRODUCTS.includes(tensor.op)) return (opDef(tensor.op).flops?.(tensor, src as never) ?? Infinity) / 32;
  const n = [tensor, ...src].reduce(
    (most, t) => (isMoved(t, tensor) ? Math.max(most, nelements(t.ne)) : most),
    0,
  );
  return SIMPLE.includes(tensor.op) ? n : 4 * n;
}

// A cache that rows are written to, or a table that they are read from, is not gone through.
function isMoved(t: Tensor | undefined, node: Tensor): t is Tensor {
  if (t === undefined) return false;
  if (node.op === Op.SET_ROWS) return t === node.src[0];
  return node.op !== Op.GET_ROWS || t === node;
}

/**
 * Sets the flags MEET and SOLO in the records of a program whose addresses are bound.
 *
 * @param first index of the record of the first node
 * @param soloWork see {@link workOf}
 */
export function markMeetings(
  arena: Arena,
  records: number,
  first: number,
  nodes: readonly ProgramNode[],
  soloWork: number,
): void {
  let group: Access[] = [];
  nodes.forEach((node, i) => {
    if (node.tensor.op <= Op.TRANSPOSE) return;
    const at = records + (first + i) * NODE_BYTES;
    const access = accessOf(arena, at, node.tensor.op, isSolo(node, soloWork, group));
    const meet = group.length >= GROUP_MAX || group.some((other) => collide(other, access));
    if (meet) group = [];
    group.push(access);
    const flags = arena.i32[(at + NODE_FLAGS) / 4]! & ~(Flag.MEET | Flag.SOLO);
    arena.i32[(at + NODE_FLAGS) / 4] = flags | (meet ? Flag.MEET : 0) | (access.solo ? Flag.SOLO : 0);
  });
}

// Left to thread 0, a small product beside a shared one would keep the others waiting for it at their next meeting.
function isSolo(node: ProgramNode, soloWork: number, group: readonly Access[]): boolean {
  const work = workOf(node);
  if (work > soloWork) return false;
  return (
    node.beside !== true || work <= SIDE_WORK || group.every((other) => other.solo || other.op !== Op.MUL_MAT)
  );
}

function accessOf({ u32, f64 }: Arena, at: number, op: Op, solo: boolean): Access {
  const range = (record: number, start: number, size: number): Range => {
    const from = u32[(record + start) / 4]!;
    return { from, to: from + f64[(record + size) / 8]! };
  };
  const reads: Range[] = [];
  for (let k = 0; k < MAX_SRC; k++) {
    const src = u32[(at + NODE_SRC) / 4 + k]!;
    if (src !== 0 && src !== at) reads.push(range(src, NODE_DATA, NODE_SIZE));
  }
  return {
    solo,
    op,
    reads,
    result: range(at, NODE_DATA, NODE_SIZE),
    scratch: range(at, NODE_SCRATCH_DATA, NODE_SCRATCH),
  };
}

// May these two not be under way at the same time?
function collide(a: Access, b: Access): boolean {
  if (a.solo && b.solo) return false;
  return writesInto(a, b) || writesInto(b, a) || (overlap(a.scratch, b.scratch) && !sameParts(a, b));
}

// What `a` writes (result, scratch) against all that `b` touches, but for scratch against scratch.
function writesInto(a: Access, b: Access): boolean {
  const touched = [...b.reads, b.result];
  return touched.some((r) => overlap(a.result, r) || overlap(a.scratch, r)) || overlap(a.result, b.scratch);
}

// Each thread has the same part of the scratch in both.
function sameParts(a: Access, b: Access): boolean {
  const { scratch: x } = a;
  const { scratch: y } = b;
  return a.op === Op.MUL_MAT && b.op === a.op && !a.solo && !b.solo && x.from === y.from && x.to === y.to;
}

function overlap(a: Range, b: Range): boolean {
  return a.from < b.to && b.from < a.to;
}

/** The program with products of the same few columns moved up to the first of them, where nothing forbids it. */
export function besideEachOther(program: Program): Program {
  const { nodes } = program;
  const siblings = siblingsOf(nodes);
  if (siblings.size === 0) return program;
  const { next, waits } = edgesOf(nodes);
  const order: ProgramNode[] = [];
  const done = nodes.map(() => false);
  const emit = (i: number, beside: boolean): void => {
    done[i] = true;
    order.push(beside ? { ...nodes[i]!, beside } : nodes[i]!);
    for (const j of next[i]!) waits[j]!--;
  };
  nodes.forEach((_, i) => {
    if (done[i]) return;
    emit(i, false);
    for (const j of siblings.get(i) ?? []) if (!done[j] && waits[j] === 0) emit(j, true);
  });
  return { leafs: program.leafs, nodes: order };
}

// Per product with few columns: later products with the same activations.
function siblingsOf(nodes: readonly ProgramNode[]): Map<number, readonly number[]> {
  const byColumns = new Map<Tensor, number[]>();
  nodes.forEach(({ tensor, src }, i) => {
    const [, b] = src;
    if (tensor.op !== Op.MUL_MAT || b === undefined || nelements(b.ne) > BESIDE_COLUMNS * b.ne[0]) return;
    byColumns.set(b, [...(byColumns.get(b) ?? []), i]);
  });
  const all = [...byColumns.values()].filter((list) => list.length > 1);
  return new Map(all.flatMap((list) => list.map((i, k) => [i, list.slice(k + 1)] as const)));
}
