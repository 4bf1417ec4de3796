// SUM SUM_ROWS MEAN CUMSUM: sums over everything or along each row.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { nelements } from "../../shape.ts";
import { Type, typeName } from "../../types.ts";
import { type Caps, type Dispatch, f32, type GpuKernel, nbParams, u32 } from "../kernel.ts";
import { address, LIVE_ROWS, liveBind } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat, roundSource, storeFloat } from "../wgsl/float.ts";
import { isReadable } from "../wgsl/quants.ts";
import { eachRow, lanesFor, reduceSource, usesSubgroups } from "../wgsl/rows.ts";

const LANES = 256;
// indices of element i of all
const SPREAD = ["(i % P.n0)", "(row % P.n1)", "(row / P.n1 % P.n2)", "(row / P.n1 / P.n2)"];

/** [n, ...] -> [1, ...], divided by n where `mean`. */
export function sumRowsKernel(mean: boolean): GpuKernel {
  return { supports: readable, dispatches: (node, caps) => [sumRows(node, mean, caps)] };
}

function readable({ tensor, src }: ProgramNode): boolean {
  return [tensor, src[0]!].every((t) => t.type === Type.F32 && isReadable(t));
}

function sumRows(node: ProgramNode, mean: boolean, caps: Caps): Dispatch {
  const [dst, a] = [node.tensor, node.src[0]!];
  return eachRow(node, {
    label: "sum_rows",
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read" },
    ],
    params: [
      ...nbParams("dst", dst),
      ...nbParams("a", a),
      u32("count", a.ne[0]),
      f32("divisor", mean ? a.ne[0] : 1),
    ],
    body: `
  let at = ${address("a", ["0u", "i1", "i2", "i3"])};
  var s = 0.0;
  for (var i = local; i < P.count; i += LANES) { s += a_f32(at + i * P.a_nb0); }
  s = all_sum(local, s);
  if (local == 0u) { dst_set_f32(${address("dst", ["0u", "i1", "i2", "i3"])}, s / P.divisor); }`,
    lanes: lanesFor(a.ne[0]),
    subgroups: usesSubgroups(caps),
  });
}

/** Sum of all elements, by one workgroup. */
export const sumKernel: GpuKernel = {
  supports: ({ tensor, src }) =>
    [tensor, src[0]!].every((t) => FLOAT_TYPES.includes(t.type) && isReadable(t)),
  dispatches: (node) => [sum(node)],
};

function sum({ tensor: dst, src }: ProgramNode): Dispatch {
  const a = src[0]!;
  const live = src[SRC_LIVE] !== undefined;
  const label = `sum ${typeName(a.type)}`;
  return {
    label,
    key: `${label}${live ? " live" : ""}`,
    source: () => `
${live ? LIVE_ROWS : ""}${roundSource(dst.type)}${reduceSource(LANES, false)}
fn main(group: u32, local: u32) {
  let n = ${live ? "min(P.n, live_rows() * P.n0)" : "P.n"};
  var s = 0.0;
  for (var i = local; i < n; i += ${LANES}u) {
    let row = i / P.n0;
    s += ${loadFloat("a", a.type, address("a", SPREAD))};
  }
  s = all_sum(local, s);
  if (local == 0u) { ${storeFloat("dst", dst.type, "0u", "s")} }
}
`,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read" },
      ...(live ? [liveBind()] : []),
    ],
    params: [u32("n", nelements(a.ne)), ...a.ne.map((x, i) => u32(`n${i}`, x)), ...nbParams("a", a)],
    groups: 1,
    workgroup: LANES,
  };
}

/** Running sums: each invocation adds up a stretch of the row, then the stretches before it are added. */
export const cumsumKernel: GpuKernel = {
  supports: readable,
  dispatches: (node) => [cumsum(node)],
};

function cumsum(node: ProgramNode): Dispatch {
  const [dst, a] = [node.tensor, node.src[0]!];
  const lanes = lanesFor(dst.ne[0]);
  return eachRow(node, {
    label: "cumsum",
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read" },
    ],
    params: [...nbParams("dst", dst), ...nbParams("a", a), u32("each", Math.ceil(dst.ne[0] / lanes))],
    body: `
  let at = ${address("a", ["0u", "i1", "i2", "i3"])};
  let to = ${address("dst", ["0u", "i1", "i2", "i3"])};
  let first = min(P.n0, local * P.each);
  let end = min(P.n0, first + P.each);
  var s = 0.0;
  for (var i = first; i < end; i++) { s += a_f32(at + i * P.a_nb0); }
  RED[local] = s;
  workgroupBarrier();
  for (var h = 1u; h < LANES; h <<= 1u) {
    var before = 0.0;
    if (local >= h) { before = RED[local - h]; }
    workgroupBarrier();
    RED[local] += before;
    workgroupBarrier();
  }
  var total = 0.0;
  if (local > 0u) { total = RED[local - 1u]; }
  for (var i = first; i < end; i++) {
    total += a_f32(at + i * P.a_nb0);
    dst_set_f32(to + i * P.dst_nb0, total);
  }`,
    lanes,
  });
}
