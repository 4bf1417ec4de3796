// FLASH_ATTN_EXT: attention in one pass over the cells, with a running maximum and sum per row (assembly/kernels has the
// same operator and says what masks, sinks, length and spans mean).
//
// A row is one token of one head. A workgroup takes up to ROWS rows that share a KV head through blocks of 64 cells:
// each invocation scores one cell for all rows, then takes a quad of the values' elements over the block's cells. Where
// that gives too few workgroups (decoding), the blocks are dealt out to several, and a second dispatch merges their
// results, which lie in scratch:
//
//   scratch [Dv + 2, splits, rows]   accumulator | maximum | sum

import { AttnParam, SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { isQuantized, typeName } from "../../types.ts";
import {
  type Bind,
  type Dispatch,
  f32,
  type GpuKernel,
  i32,
  nbParams,
  type Param,
  slotF32,
  u32,
} from "../kernel.ts";
import { isReadable, QUAD_TYPES, rowsAligned } from "../wgsl/quants.ts";
import { attendSource, mergeSource, type Shape } from "./flash_attn_source.ts";
import { slopeParams } from "./soft_max.ts";

const CELLS = 64;
const LANES = 64;
// Workgroups that fill a device, and blocks of cells below which a split does not pay.
const ENOUGH = 128;
const BLOCKS_OF_SPLIT = 4;
/** Largest row of queries or values: what fits into workgroup memory. */
const MAX_D = 640;

export const flashAttnExtKernel: GpuKernel = {
  note: "rows of q and v of up to 640 elements",
  supports({ tensor, src }, caps): boolean {
    const [q, k, v] = [src[0]!, src[1]!, src[2]!];
    const known = [k, v].every((x) => QUAD_TYPES.includes(x.type) && x.nBytes <= caps.maxBinding);
    const small = q.ne[0] <= MAX_D && v.ne[0] <= MAX_D;
    return known && small && [tensor, ...src].every((x) => x === undefined || isReadable(x));
  },
  dispatches(node): readonly Dispatch[] {
    const shape = shapeOf(node);
    const first = attend(node, shape);
    return shape.splits === 1 ? [first] : [first, merge(node, shape)];
  },
  scratch(node): number {
    const { splits, dv } = shapeOf(node);
    const { ne } = node.tensor;
    return splits === 1 ? 0 : 4 * (dv + 2) * splits * ne[1] * ne[2] * ne[3];
  },
};

function shapeOf({ tensor: dst, src }: ProgramNode): Shape {
  const [q, k, v] = [src[0]!, src[1]!, src[2]!];
  const heads = Math.max(k.ne[2], v.ne[2]);
  const perHead = (q.ne[1] * dst.ne[1]) / heads;
  const rows = perHead === 1 ? 1 : 4;
  const groups = Math.ceil(perHead / rows) * heads * dst.ne[3];
  const blocks = Math.ceil(k.ne[1] / CELLS);
  const splits = Math.min(Math.ceil(ENOUGH / groups), Math.floor(blocks / BLOCKS_OF_SPLIT));
  return {
    d: q.ne[0],
    dv: v.ne[0],
    rows,
    splits: Math.max(1, splits),
    k: k.type,
    v: v.type,
    kAligned: isQuantized(k.type) || rowsAligned(k, 4),
    vAligned: isQuantized(v.type) || rowsAligned(v, 4),
    mask: src[3]?.type,
    sinks: src[4] !== undefined,
    length: src[5] !== undefined,
    spans: src[6] !== undefined,
    live: src[SRC_LIVE] !== undefined,
    capped: slotF32(dst.params[AttnParam.SOFTCAP]) !== 0,
    biased: slotF32(dst.params[AttnParam.MAX_BIAS]) > 0,
    windowed: (dst.params[AttnParam.WINDOW] ?? 0) !== 0,
  };
}

function labelOf(shape: Shape): string {
  const { d, dv, rows, k, v, mask } = shape;
  const parts = [`flash_attn_ext ${d} ${dv} x${rows} ${typeName(k)} ${typeName(v)}`];
  if (mask !== undefined) parts.push(`mask ${typeName(mask)}`);
  for (const key of ["sinks", "length", "spans", "live", "capped", "biased", "windowed"] as const)
    if (shape[key]) parts.push(key);
  if (shape.splits > 1) parts.push("split");
  if (!shape.kAligned || !shape.vAligned) parts.push(`odd ${shape.kAligned} ${shape.vAligned}`);
  return parts.join(" ");
}

function binds({ src }: ProgramNode, split: boolean): Bind[] {
  const names = ["q", "k", "v", "mask", "sinks", "length", "spans"];
  const sources = names.flatMap((name, i): Bind[] =>
    src[i] === undefined || (split && name === "sinks") ? [] : [{ name, of: i, access: "read" }],
  );
  const live: Bind[] = src[SRC_LIVE] === undefined ? [] : [{ name: "live", of: SRC_LIVE, access: "read" }];
  return [{ name: "dst", of: split ? "scratch" : "dst", access: "write" }, ...sources, ...live];
}

function attend(node: ProgramNode, shape: Shape): Dispatch {
  const { tensor: dst, src } = node;
  const [q, k, v] = [src[0]!, src[1]!, src[2]!];
  const heads = Math.max(k.ne[2], v.ne[2]);
  const perHead = (q.ne[1] * dst.ne[1]) / heads;
  const blocks = Math.ceil(perHead / shape.rows);
  const label = labelOf(shape);
  return {
    label,
    key: label,
    source: () => attendSource(shape),
    bind: binds(node, shape.splits > 1),
    params: [
      u32("splits", shape.splits),
      u32("row_blocks", blocks),
      u32("per_head", perHead),
      u32("heads", heads),
      u32("group", dst.ne[1] / heads),
      u32("tokens", q.ne[1]),
      u32("cells", k.ne[1]),
      u32("k_of", heads / k.ne[2]),
      u32("v_of", heads / v.ne[2]),
      u32("k_seq", dst.ne[3] / k.ne[3]),
      u32("v_seq", dst.ne[3] / v.ne[3]),
      ...[q, k, v, dst].flatMap((x, i) => nbParams(["q", "k", "v", "y"][i]!, x).slice(1)),
      ...optional(src),
      f32("scale", slotF32(dst.params[AttnParam.SCALE])),
      f32("cap", slotF32(dst.params[AttnParam.SOFTCAP])),
      i32("window", dst.params[AttnParam.WINDOW] ?? 0),
      u32("both", dst.params[AttnParam.TWO_SIDED] ?? 0),
      ...slopeParams(slotF32(dst.params[AttnParam.MAX_BIAS]), dst.ne[1]),
    ],
    groups: shape.splits * blocks * heads * dst.ne[3],
    workgroup: LANES,
  };
}

function optional(src: readonly (Tensor | undefined)[]): Param[] {
  const [, , , mask, sinks, length, spans] = src;
  return [
    ...(mask === undefined ? [] : nbParams("mask", mask)),
    ...(mask === undefined ? [] : [u32("mask_ne2", mask.ne[2]), u32("mask_ne3", mask.ne[3])]),
    u32("sinks_nb0", sinks?.nb[0] ?? 0),
    u32("length_nb0", length?.nb[0] ?? 0),
    u32("spans_nb0", spans?.nb[0] ?? 0),
    u32("spans_nb1", spans?.nb[1] ?? 0),
  ];
}

// A workgroup for each row: token, head, sequence in the order of the result's rows.
function merge(node: ProgramNode, shape: Shape): Dispatch {
  const { tensor: dst, src } = node;
  const label = `flash_attn_ext merge ${shape.dv}${shape.sinks ? " sinks" : ""}`;
  return {
    label,
    key: label,
    source: () => mergeSource(shape),
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "part", of: "scratch", access: "read" },
      ...(shape.sinks ? [{ name: "sinks", of: 4, access: "read" } as const] : []),
    ],
    params: [
      u32("splits", shape.splits),
      u32("h", dst.ne[1]),
      u32("n", dst.ne[2]),
      u32("sinks_nb0", src[4]?.nb[0] ?? 0),
      ...nbParams("y", dst).slice(1),
    ],
    groups: dst.ne[1] * dst.ne[2] * dst.ne[3],
    workgroup: LANES,
  };
}
