// The contract of GPU kernels: what a kernel of an operator says of its dispatches. Knows no device.
//
// A kernel is a pure function of a node's types, shapes and parameters, and of what the device can do. It never sees
// addresses, bindings or buffers: the plan makes those (ts/webgpu/module.ts writes the accessors, plan.ts the rest), so
// the same WGSL body serves fresh results, results in place of a source, and views.
//
//   body     "fn main(group: u32, local: u32) { ... }" and what it calls, in terms of accessors and of P
//   P        the parameters of the dispatch, a uniform: P.name for each entry of `params`
//   group    number of the workgroup, 0 <= group < groups; local: number of the invocation in it. Both are as uniform
//            as WGSL's builtins, so barriers may follow. Groups beyond 65535 are no concern of the body
//
// Accessors of an operand named `a`; all addresses are bytes from the start of the operand (of its window, if it has
// one), so strides nb[] are used as they are:
//
//   a_u32(b) a_i32(b) a_f32(b)   a word; b is a multiple of 4 and the tensor's data begins at one (types of 4 and 8 bytes)
//   a_word(b)                    4 bytes from any byte on, as u32
//   a_u16(b)                     2 bytes from any even byte on (of tensors of 2-byte types and of even blocks)
//   a_u8(b)                      a byte
//   a_f16(b) a_bf16(b)           2 bytes as a float, subnormals kept
//   a_set_u32(b, v) a_set_i32(b, v) a_set_f32(b, v)
//   a_set_u16(b, v) a_set_u8(b, v)   part of a word, the rest is kept. With `atomic` other invocations may write the
//                                rest at the same time; without, one invocation must own the word
//   fault_report(id)             of the operand "fault" alone: says that this node met an id outside its table
//
// Reading beyond the operand gives any value and does no harm; writing beyond it may hit a neighbour.

import type { Op } from "../../assembly/abi.ts";
import type { ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import { typeInfo } from "../types.ts";

/** What a device can do, as kernels care. */
export interface Caps {
  /** WGSL's f16 may be enabled */
  readonly f16: boolean;
  /** WGSL's subgroups may be enabled; no size may be assumed but subgroupMin <= size <= subgroupMax */
  readonly subgroups: boolean;
  readonly subgroupMin: number;
  readonly subgroupMax: number;
  /** dot4I8Packed and dot4U8Packed are there */
  readonly dot4: boolean;
  /** largest operand (window) in bytes: maxStorageBufferBindingSize less what alignment may cost */
  readonly maxBinding: number;
  /** invocations in a workgroup, at least 256 */
  readonly maxInvocations: number;
  /** bytes of var<workgroup>, at least 16384 */
  readonly maxWorkgroupBytes: number;
}

/** An operand of a dispatch. */
export interface Bind {
  /** prefix of its accessors */
  readonly name: string;
  /** the result, the kernel's scratch, where ids outside their tables are noted, or the index of a source */
  readonly of: "dst" | "scratch" | "fault" | number;
  /** "write" also permits reading: what lies there before is what the dispatches before left */
  readonly access: "read" | "write";
  /** first byte, in the tensor or the scratch; 0 when absent. Addresses count from here */
  readonly offset?: number;
  /** bytes from `offset` on; to the end when absent */
  readonly bytes?: number;
  /** several invocations write parts of one word */
  readonly atomic?: boolean;
}

/** A parameter of a dispatch, P.name in the body. */
export interface Param {
  readonly name: string;
  readonly type: "u32" | "i32" | "f32";
  readonly value: number;
}

/** One dispatch. */
export interface Dispatch {
  /** what runs, for messages: "mul_mat q4_0 tile" */
  readonly label: string;
  /** two dispatches of equal key have equal body, workgroup, enables, parameter names and operands (names and access) */
  readonly key: string;
  /** WGSL of the body; asked for once per key */
  source(): string;
  readonly bind: readonly Bind[];
  /** at most {@link MAX_DISPATCH_PARAMS} */
  readonly params: readonly Param[];
  /** workgroups, in one dimension, 1 to 2^31 */
  readonly groups: number;
  /** invocations per workgroup */
  readonly workgroup: number;
  /**
   * WGSL extensions the body uses; only what {@link Caps} allows. With "subgroups" the body also has `sg_size` and
   * `sg_lane` (u32, private variables)
   */
  readonly enable?: readonly ("f16" | "subgroups")[];
  /**
   * The plan may run several dispatches of equal key as one, where none needs what another writes. The parameters are then
   * not uniform to WGSL: no barrier may stand in control flow that depends on them
   */
  readonly mergeable?: boolean;
}

/** Parameters of a dispatch, at most: a slot has 64 words, one for the groups and one for each operand. */
export const MAX_DISPATCH_PARAMS = 54;

/**
 * Kernel of an operator.
 *
 * Where the operator is `inplace` (ts/ops), the result may lie exactly where a source lies: each element (or row) must be
 * read before it is overwritten, by the invocation (or workgroup) that overwrites it, and by no later dispatch.
 */
export interface GpuKernel {
  /** what it leaves to the CPU, or does otherwise than the CPU; for docs/ops.md */
  readonly note?: string;
  /** cheap: false for what {@link dispatches} cannot do */
  supports(node: ProgramNode, caps: Caps): boolean;
  /**
   * What runs, in order; each dispatch sees all that those before wrote. Operands larger than caps.maxBinding make the
   * node unsupported: cut them into windows (see {@link rowWindows}). Not asked for results without elements.
   */
  dispatches(node: ProgramNode, caps: Caps): readonly Dispatch[];
  /** false: a fresh result only, although the operator is `inplace` */
  readonly inPlace?: boolean;
  /** bytes of scratch, shared by the dispatches of the node and with any content at first; none when absent */
  scratch?(node: ProgramNode, caps: Caps): number;
}

/** The operand of kernels that read ids: see faults.ts. */
export const FAULT: Bind = { name: "fault", of: "fault", access: "write", atomic: true };

/** Kernels by operator. */
export type Kernels = { readonly [K in Op]?: GpuKernel };

/** An unsigned parameter. */
export function u32(name: string, value: number): Param {
  return { name, type: "u32", value };
}

/** A signed parameter. */
export function i32(name: string, value: number): Param {
  return { name, type: "i32", value };
}

/** A float parameter. */
export function f32(name: string, value: number): Param {
  return { name, type: "f32", value };
}

const BITS = new DataView(new ArrayBuffer(4));

/** Float whose bits stand in a tensor's parameter slot. */
export function slotF32(slot: number | undefined): number {
  BITS.setInt32(0, slot ?? 0);
  return BITS.getFloat32(0);
}

/** Parameters `${prefix}_ne0` .. 3. */
export function neParams(prefix: string, { ne }: Tensor): Param[] {
  return ne.map((n, i) => u32(`${prefix}_ne${i}`, n));
}

/**
 * Parameters `${prefix}_nb0` .. 3, bytes. A stride of a dimension of one element is never used, but for the first where
 * all elements are taken for one row: there it is the size of an element.
 */
export function nbParams(prefix: string, { type, ne, nb }: Tensor): Param[] {
  return nb.map((b, i) =>
    u32(`${prefix}_nb${i}`, i === 0 && ne[0] === 1 ? typeInfo(type)!.typeSize : b >>> 0),
  );
}

/** Rows [first, last) of a matrix and the bytes where they lie. */
export interface RowWindow {
  readonly first: number;
  readonly last: number;
  readonly offset: number;
  readonly bytes: number;
}

/**
 * Cuts `rows` rows of `rowBytes` bytes, `stride` apart and beginning at `offset`, into windows of at most `max` bytes;
 * one window where all fits. `step`: windows begin at multiples of so many rows.
 */
export function rowWindows(
  rows: number,
  stride: number,
  rowBytes: number,
  max: number,
  { offset = 0, step = 1 }: { readonly offset?: number; readonly step?: number } = {},
): RowWindow[] {
  const fit = Math.floor((max - rowBytes) / stride) + 1;
  const each = fit >= rows ? rows : Math.max(step, Math.floor(fit / step) * step);
  const windows: RowWindow[] = [];
  for (let first = 0; first < rows; first += each) {
    const last = Math.min(rows, first + each);
    const bytes = (last - first - 1) * stride + rowBytes;
    windows.push({ first, last, offset: offset + first * stride, bytes });
  }
  return windows;
}
