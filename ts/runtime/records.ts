// Writes a program as node records into linear memory, in the layout of assembly/abi.ts.

import {
  Flag,
  NODE_BUFFER,
  NODE_BYTES,
  NODE_DATA,
  NODE_FLAGS,
  NODE_NB,
  NODE_NE,
  NODE_OFFS,
  NODE_PARAMS,
  NODE_PARENT,
  NODE_SCRATCH,
  NODE_SCRATCH_DATA,
  NODE_SCRATCH_OFFS,
  NODE_SIZE,
  NODE_SRC,
  NODE_TYPE,
  NODE_VIEW_OFFS,
  NODE_VIEW_SRC,
  type Op,
} from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import { opDef } from "../ops/index.ts";
import { nbytes } from "../shape.ts";
import type { Arena } from "./arena.ts";
import type { Backend, BufferType } from "./backend.ts";
import { kernelOf } from "./cpu_fuse.ts";
import type { Schedule } from "./scheduler/splits.ts";

/** Largest tensor whose every byte a 32-bit address reaches. */
export const MAX_BYTES: number = 2 ** 32 - 65536;

/**
 * Most bytes of a plan that lie in one buffer of this type, a multiple of its alignment. Linear memory is one buffer
 * whatever is planned: records hold addresses.
 */
export function chunkSizeOf({ isHost, maxSize, alignment }: BufferType): number {
  return isHost ? Infinity : Math.floor(maxSize / alignment) * alignment;
}

// A tensor lies wholly in one buffer. Strides beyond 32 bits, of devices only, are cut: the planner compares them, no kernel
// reads them.
function checkedSize(t: Tensor, { name, bufferType }: Backend): number {
  const size = nbytes(t.type, t.ne, t.nb);
  const isPlanned = (t.root.flags & Flag.EXTERNAL) === 0;
  const most = Math.min(bufferType.maxSize, isPlanned ? chunkSizeOf(bufferType) : Infinity);
  if (size <= most && t.nb.every((n) => n <= bufferType.maxSize)) return size;
  throw tooLarge(t, `${size} bytes; ${name} takes ${most}`, most, size);
}

function tooLarge(t: Tensor, what: string, expected: number, actual: number): GraphError {
  return new GraphError("too-large", `${t.label()}: ${what}`, { tensor: t.name, expected, actual });
}

/** Number of records of a program. */
export function recordCount(program: Program): number {
  return program.leafs.length + program.nodes.length;
}

/**
 * Writes leafs, then nodes. `at` is the address of the first record. Sources and views become record addresses; data
 * addresses are left to the planner's bind, except for tensors that `addressOf` knows.
 *
 * @throws {GraphError} too-large for a tensor, or the scratch of its node, that its backend cannot hold, by name
 */
export function writeRecords(
  arena: Arena,
  at: number,
  { program, bufferOf }: Schedule,
  backends: readonly Backend[],
  addressOf: (t: Tensor) => number | undefined,
): void {
  const address = new Map<Tensor, number>();
  const list: ProgramNode[] = [...program.leafs.map((tensor) => ({ tensor, src: [] })), ...program.nodes];
  list.forEach(({ tensor }, i) => address.set(tensor, at + i * NODE_BYTES));
  arena.u8.fill(0, at, at + list.length * NODE_BYTES);
  list.forEach((node, i) => {
    const buffer = bufferOf(node.tensor);
    writeRecord(arena, address, node, buffer, backends[buffer]!, addressOf(node.tensor));
    if (i >= program.leafs.length) writeNeeds(arena, address.get(node.tensor)!, node, backends[buffer]!);
  });
}

function writeRecord(
  arena: Arena,
  address: ReadonlyMap<Tensor, number>,
  node: ProgramNode,
  buffer: number,
  backend: Backend,
  data: number | undefined,
): void {
  const { tensor: t, src } = node;
  const { i32, u32, f64 } = arena;
  const base = address.get(t)!;
  const cell = (offset: number): number => (base + offset) / 4;
  const size = checkedSize(t, backend);
  const { op, params } = kernelOf(node);
  i32[base / 4] = op satisfies Op;
  i32[cell(NODE_TYPE)] = t.type;
  i32[cell(NODE_FLAGS)] =
    (t.flags & (Flag.INPUT | Flag.OUTPUT | Flag.EXTERNAL)) |
    (t.root.flags & Flag.QUADS) |
    (node.beside === true ? Flag.BESIDE : 0);
  i32[cell(NODE_BUFFER)] = buffer;
  t.ne.forEach((n, i) => (i32[cell(NODE_NE) + i] = n));
  t.nb.forEach((n, i) => (u32[cell(NODE_NB) + i] = n));
  src.forEach((s, i) => (u32[cell(NODE_SRC) + i] = s === undefined ? 0 : address.get(s)!));
  u32[cell(NODE_VIEW_SRC)] = t.viewSrc === undefined ? 0 : address.get(t.viewSrc)!;
  u32[cell(NODE_DATA)] = data ?? 0;
  f64[(base + NODE_VIEW_OFFS) / 8] = t.viewOffs;
  f64[(base + NODE_SIZE) / 8] = size;
  f64[(base + NODE_OFFS) / 8] = -1;
  f64[(base + NODE_SCRATCH) / 8] = 0;
  f64[(base + NODE_SCRATCH_OFFS) / 8] = -1;
  i32[cell(NODE_PARENT)] = -1;
  params.forEach((p, i) => (i32[cell(NODE_PARAMS) + i] = p));
}

// What a node needs of its backend beside memory for its result.
function writeNeeds({ i32, f64 }: Arena, at: number, node: ProgramNode, backend: Backend): void {
  if (opDef(node.tensor.op).inplace && backend.inPlace(node)) i32[(at + NODE_FLAGS) / 4]! |= Flag.INPLACE;
  const scratch = backend.scratch(node);
  const most = chunkSizeOf(backend.bufferType);
  if (scratch > most)
    throw tooLarge(node.tensor, `${scratch} bytes of scratch; ${backend.name} takes ${most}`, most, scratch);
  f64[(at + NODE_SCRATCH) / 8] = scratch;
}

/**
 * Sets the addresses of planned data: own memory at `base` + offset, views at their root's address + view offset.
 * External tensors keep theirs. Call once per backend buffer, after the external addresses are set.
 *
 * @param n    records, leafs and nodes
 * @param base address of backend buffer `buffer`
 */
export function bindRecords(
  { i32, u32, f64 }: Pick<Arena, "i32" | "u32" | "f64">,
  records: number,
  n: number,
  buffer: number,
  base: number,
): void {
  for (let i = 0, at = records; i < n; i++, at += NODE_BYTES) {
    if (i32[(at + NODE_BUFFER) / 4] === buffer) {
      const [offs, scratch] = [f64[(at + NODE_OFFS) / 8]!, f64[(at + NODE_SCRATCH_OFFS) / 8]!];
      if (offs >= 0) u32[(at + NODE_DATA) / 4] = base + offs;
      u32[(at + NODE_SCRATCH_DATA) / 4] = scratch >= 0 ? base + scratch : 0;
    }
    const root = u32[(at + NODE_VIEW_SRC) / 4]!;
    const data = root === 0 ? 0 : u32[(root + NODE_DATA) / 4]!;
    if (data !== 0) u32[(at + NODE_DATA) / 4] = data + f64[(at + NODE_VIEW_OFFS) / 8]!;
  }
}
