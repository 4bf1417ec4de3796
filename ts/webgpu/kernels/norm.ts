// NORM RMS_NORM L2_NORM GROUP_NORM: each row, or group of channels, divided by a measure of its own size; F32.

import { Op } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { Type } from "../../types.ts";
import {
  type Caps,
  type Dispatch,
  f32,
  type GpuKernel,
  nbParams,
  neParams,
  slotF32,
  u32,
} from "../kernel.ts";
import { address } from "../wgsl/elements.ts";
import { isReadable } from "../wgsl/quants.ts";
import { eachRow, lanesFor, usesSubgroups } from "../wgsl/rows.ts";

const ROW = ["0u", "i1", "i2", "i3"];

const SQUARES = (shift: string): string => `
  var s = 0.0;
  for (var i = local; i < P.n0; i += LANES) { let d = a_f32(at + 4u * i) - ${shift}; s += d * d; }
  s = all_sum(local, s);`;

/** Statements that make `shift` and `factor` of the row at byte `at`. */
const MEASURES = {
  norm: `
  var total = 0.0;
  for (var i = local; i < P.n0; i += LANES) { total += a_f32(at + 4u * i); }
  let shift = all_sum(local, total) / f32(P.n0);
  ${SQUARES("shift")}
  let factor = 1.0 / sqrt(s / f32(P.n0) + P.eps);`,
  rms_norm: `
  let shift = 0.0;
  ${SQUARES("0.0")}
  let factor = 1.0 / sqrt(s / f32(P.n0) + P.eps);`,
  l2_norm: `
  let shift = 0.0;
  ${SQUARES("0.0")}
  let factor = 1.0 / max(sqrt(s), P.eps);`,
};

function readable({ tensor, src }: ProgramNode): boolean {
  return [tensor, src[0]!].every((t) => t.type === Type.F32 && isReadable(t));
}

/** Kernel of a norm of rows; eps in slot 0. */
export function normKernel(name: keyof typeof MEASURES): GpuKernel {
  return { supports: readable, dispatches: (node, caps) => [dispatch(name, node, caps)] };
}

/** A norm times a row of weights, src1, which is repeated over the rows: the norm is the node fused into it. */
export const scaledNormKernel: GpuKernel = {
  supports: (node) => readable(node) && node.src[1]!.type === Type.F32 && isReadable(node.src[1]!),
  dispatches: (node, caps) => [
    dispatch(Op[node.fused![0]!.tensor.op]!.toLowerCase() as keyof typeof MEASURES, node, caps),
  ],
};

function dispatch(name: keyof typeof MEASURES, node: ProgramNode, caps: Caps): Dispatch {
  const dst = node.tensor;
  const { params } = node.fused?.[0]?.tensor ?? dst;
  const w = node.src[1];
  const times = w === undefined ? "" : " * w_f32(wt + 4u * i)";
  return eachRow(node, {
    label: w === undefined ? name : `${name} mul`,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read" },
      ...(w === undefined ? [] : [{ name: "w", of: 1, access: "read" } as const]),
    ],
    params: [
      ...nbParams("dst", dst),
      ...nbParams("a", node.src[0]!),
      ...(w === undefined ? [] : [...neParams("w", w), ...nbParams("w", w)]),
      f32("eps", slotF32(params[0])),
    ],
    body: `
  let at = ${address("a", ROW)};
  let to = ${address("dst", ROW)};
  ${w === undefined ? "" : "let wt = i1 % P.w_ne1 * P.w_nb1 + i2 % P.w_ne2 * P.w_nb2 + i3 % P.w_ne3 * P.w_nb3;"}
  ${MEASURES[name]}
  for (var i = local; i < P.n0; i += LANES) {
    dst_set_f32(to + 4u * i, (a_f32(at + 4u * i) - shift) * factor${times});
  }`,
    lanes: lanesFor(dst.ne[0]),
    subgroups: usesSubgroups(caps),
  });
}

/** Groups in slot 0, eps in 1: a workgroup for each group of each batch. */
export const groupNormKernel: GpuKernel = {
  supports: readable,
  dispatches: (node, caps) => [groups(node, caps)],
};

function groups(node: ProgramNode, caps: Caps): Dispatch {
  const dst = node.tensor;
  const [ne0, ne1, ne2, ne3] = dst.ne;
  const channels = Math.max(1, Math.ceil(ne2 / dst.params[0]!));
  // elements of a group are numbered as in [ne0, ne1, channels of the group]
  const place = (a: string): string =>
    address(a, ["(i % P.n0)", "(i / P.n0 % P.rows)", "(first + i / P.n0 / P.rows)", "i2"]);
  return eachRow(node, {
    label: "group_norm",
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read" },
    ],
    params: [
      ...nbParams("dst", dst),
      ...nbParams("a", node.src[0]!),
      f32("eps", slotF32(dst.params[1])),
      u32("rows", ne1),
      u32("channels", ne2),
      u32("each", channels),
    ],
    body: `
  let first = i1 * P.each;
  let n = (min(P.channels, first + P.each) - first) * P.rows * P.n0;
  var total = 0.0;
  for (var i = local; i < n; i += LANES) { total += a_f32(${place("a")}); }
  let shift = all_sum(local, total) / f32(n);
  var s = 0.0;
  for (var i = local; i < n; i += LANES) { let d = a_f32(${place("a")}) - shift; s += d * d; }
  let factor = 1.0 / sqrt(all_sum(local, s) / f32(n) + P.eps);
  for (var i = local; i < n; i += LANES) { dst_set_f32(${place("dst")}, (a_f32(${place("a")}) - shift) * factor); }`,
    ne: [ne0, Math.ceil(ne2 / channels), ne3, 1],
    lanes: lanesFor(ne0 * ne1 * channels),
    subgroups: usesSubgroups(caps),
  });
}
