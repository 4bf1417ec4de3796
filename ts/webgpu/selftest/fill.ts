// Data for the self-test: seeded, finite, and valid where it means something (row numbers, lengths).

import { Op, SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { toBF16, toF16 } from "../../graph/elements.ts";
import { nelements } from "../../shape.ts";
import { isQuantized, Type, typeInfo } from "../../types.ts";
import { SCALES } from "../wgsl/quants.ts";

/** Numbers in [0, 1), the same for the same seed (a linear congruence, upper bits). */
export function numbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state >>> 8) / 2 ** 24;
  };
}

/** Bytes for the memory of source `slot`. */
export function fillOf(base: Tensor, slot: number, node: ProgramNode, next: () => number): Uint8Array {
  const n = nelements(base.ne);
  if (isQuantized(base.type)) return blocks(base, next);
  const factors = node.tensor.op === Op.ROPE && slot === 2; // divisors of angles
  const float = (): number => (factors ? 1 + next() : 2 * next() - 1);
  switch (base.type) {
    case Type.F32:
      return bytesOf(Float32Array.from({ length: n }, float));
    case Type.F16:
      return bytesOf(Uint16Array.from({ length: n }, () => toF16(float())));
    case Type.BF16:
      return bytesOf(Uint16Array.from({ length: n }, () => toBF16(float())));
    case Type.I32:
      return bytesOf(Int32Array.from({ length: n }, (_, i) => integer(i, slot, node)));
    case Type.I64:
      return bytesOf(BigInt64Array.from({ length: n }, (_, i) => BigInt(integer(i, slot, node))));
    default:
      return new Uint8Array(base.nBytes);
  }
}

function bytesOf({ buffer }: ArrayBufferView<ArrayBuffer>): Uint8Array {
  return new Uint8Array(buffer);
}

// Element i of an integer source: a row, an expert, a position, a length.
function integer(i: number, slot: number, { tensor, src }: ProgramNode): number {
  if (slot === SRC_LIVE) return Math.max(...tensor.ne);
  switch (tensor.op) {
    case Op.GET_ROWS:
      return (7 * i) % src[0]!.ne[1];
    case Op.SET_ROWS:
      return i % tensor.ne[1];
    case Op.ADD_ID:
      return i % src[1]!.ne[1];
    case Op.MUL_MAT_ID:
      return i % src[0]!.ne[2];
    case Op.FLASH_ATTN_EXT: {
      const cells = src[1]!.ne[1];
      if (slot === 6) return i % 2 === 0 ? 0 : cells; // span: first cell, end
      return i === 0 ? cells : Math.max(0, cells - src[0]!.ne[1]); // live cells, first position
    }
    default:
      return i;
  }
}

function blocks(base: Tensor, next: () => number): Uint8Array {
  const { typeSize } = typeInfo(base.type)!;
  const bytes = Uint8Array.from({ length: base.nBytes }, () => 256 * next());
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < bytes.length; at += typeSize) {
    for (const offset of SCALES[base.type] ?? []) {
      view.setUint16(at + offset, toF16(0.02 + 0.05 * next()), true);
    }
    if (base.type === Type.MXFP4) bytes[at] = 118 + 4 * next(); // an exponent
  }
  return bytes;
}
