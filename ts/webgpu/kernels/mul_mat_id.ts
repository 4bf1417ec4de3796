// MUL_MAT_ID: products with one of several matrices, chosen for each column by an id; ADD_ID: rows plus the row of a table
// with their id. An id outside the table ends in an error; what it names is NaN.
//
// A workgroup takes ROWS rows of the matrix of one column; many columns of each matrix: mul_mat_id_tile.ts. Matrices that do not fit into a binding together are read
// through windows: each dispatch computes the columns whose ids lie in its own.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { rowBytes } from "../../shape.ts";
import { Type, typeName } from "../../types.ts";
import {
  type Caps,
  type Dispatch,
  FAULT,
  type GpuKernel,
  nbParams,
  type RowWindow,
  rowWindows,
  u32,
} from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat } from "../wgsl/float.ts";
import { isReadable } from "../wgsl/quants.ts";
import { usesSubgroups } from "../wgsl/rows.ts";
import { dotLoop, LANES, redSource, reduced, ROWS } from "./dots.ts";
import { isTiled, tileDispatches, tileScratch } from "./mul_mat_id_tile.ts";
import { hasTail, operandKey, operandSource, readsProduct } from "./product.ts";

export const mulMatIdKernel: GpuKernel = {
  note: "activations stay F32",
  supports: ({ tensor, src }, caps) =>
    readsProduct(src[0]!, src[1]!, caps) &&
    matrixBytes(src[0]!) <= caps.maxBinding &&
    tensor.nBytes <= caps.maxBinding,
  dispatches(node, caps): Dispatch[] {
    const all = windows(node.src[0]!, caps);
    return isTiled(node) ? tileDispatches(node, caps, all) : all.map((w) => dispatch(node, caps, w));
  },
  scratch: (node, caps) => (isTiled(node) ? tileScratch(node, caps) : 0),
};

function matrixBytes(a: Tensor): number {
  return (a.ne[1] - 1) * a.nb[1] + rowBytes(a.type, a.ne[0]);
}

function windows(a: Tensor, caps: Caps): RowWindow[] {
  return rowWindows(a.ne[2], a.nb[2], matrixBytes(a), caps.maxBinding);
}

function dispatch(node: ProgramNode, caps: Caps, window: RowWindow): Dispatch {
  const dst = node.tensor;
  const [a, b, ids] = [node.src[0]!, node.src[1]!, node.src[2]!];
  const live = node.src[SRC_LIVE] !== undefined;
  const subgroups = usesSubgroups(caps);
  const label = `mul_mat_id ${operandKey(a, b)}`;
  const down = Math.ceil(a.ne[1] / ROWS);
  return {
    label,
    key: `${label}${hasTail(a) ? " tail" : ""}${live ? " live" : ""}${subgroups ? " subgroups" : ""}`,
    source: () => source(a, b, live, subgroups),
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read", offset: window.offset, bytes: window.bytes },
      { name: "b", of: 1, access: "read" },
      { name: "ids", of: 2, access: "read" },
      FAULT,
      ...(live ? [{ name: "live", of: SRC_LIVE, access: "read" } as const] : []),
    ],
    params: [
      u32("k", a.ne[0]),
      u32("rows", a.ne[1]),
      u32("count", a.ne[2]),
      u32("first", window.first),
      u32("last", window.last),
      u32("down", down),
      u32("n", dst.ne[1]),
      u32("tokens", dst.ne[2]),
      u32("b_ne1", b.ne[1]),
      ...nbParams("a", a),
      ...nbParams("b", b),
      ...nbParams("ids", ids),
      ...nbParams("dst", dst),
    ],
    groups: down * dst.ne[1] * dst.ne[2],
    workgroup: LANES,
    ...(subgroups ? { enable: ["subgroups"] as const } : {}),
  };
}

// Ids are the same for a whole workgroup; reading them through one invocation says so to the compiler.
function source(a: Tensor, b: Tensor, live: boolean, subgroups: boolean): string {
  return `
${operandSource(a, b)}
var<workgroup> ID: u32;
var<private> NAN: u32 = 0x7fc00000u;
${redSource(1)}
fn id_of(i: u32, t: u32) -> u32 {
  ${live ? "if (t >= live_tokens()) { return 0xffffffffu; }" : ""}
  return min(ids_u32(i * P.ids_nb0 + t * P.ids_nb1), P.count);
}
${live ? LIVE_TOKENS : ""}
fn main(group: u32, local: u32) {
  let m0 = group % P.down * ${ROWS}u;
  let i = group / P.down % P.n;
  let t = group / P.down / P.n;
  if (local == 0u) {
    ID = id_of(i, t);
    if (ID == P.count) { fault_report(ids_u32(i * P.ids_nb0 + t * P.ids_nb1)); }
  }
  let id = workgroupUniformLoad(&ID);
  let to = i * P.dst_nb1 + t * P.dst_nb2 + 4u * (m0 + local);
  if (id == P.count && local < ${ROWS}u && m0 + local < P.rows) { dst_set_f32(to, bitcast<f32>(NAN)); }
  if (id < P.first || id >= P.last) { return; }
  let at = (id - P.first) * P.a_nb2;
  let last = P.rows - 1u;
  ${[0, 1, 2, 3].map((r) => `let w${r} = at + min(m0 + ${r}u, last) * P.a_nb1;`).join(" ")}
  let x0 = i % P.b_ne1 * P.b_nb1 + t * P.b_nb2;
  var s0 = vec4f();
  ${dotLoop(a, b, [0])}
  ${reduced(0, subgroups)}
  if (local < ${ROWS}u && m0 + local < P.rows) { dst_set_f32(to, y0[local]); }
}
`;
}

// Tokens of the ids [n, tokens] that are live.
const LIVE_TOKENS = `
fn live_tokens() -> u32 { return min(P.tokens, u32(max(0, live_i32(0u)))); }
`;

/** A row of a and the row of b with its id. */
export const addIdKernel: GpuKernel = {
  supports: ({ tensor, src }) =>
    FLOAT_TYPES.includes(src[1]!.type) &&
    [tensor, src[0]!, src[1]!, src[2]!].every(isReadable) &&
    src[0]!.type === Type.F32,
  dispatches: (node) => [addId(node)],
};

function addId(node: ProgramNode): Dispatch {
  const dst = node.tensor;
  const [a, b, ids] = [node.src[0]!, node.src[1]!, node.src[2]!];
  return eachElement(node, {
    label: `add_id ${typeName(b.type)}`,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read" },
      { name: "b", of: 1, access: "read" },
      { name: "ids", of: 2, access: "read" },
      FAULT,
    ],
    params: [
      ...nbParams("dst", dst),
      ...nbParams("a", a),
      ...nbParams("b", b),
      ...nbParams("ids", ids),
      u32("rows", b.ne[1]),
    ],
    functions: "var<private> NAN: u32 = 0x7fc00000u;",
    body: `
  let id = ids_u32(i1 * P.ids_nb0 + i2 * P.ids_nb1);
  var y = bitcast<f32>(NAN);
  if (id >= P.rows) { fault_report(id); } else { y = a_f32(${address("a")}) + ${loadFloat("b", b.type, "id * P.b_nb1 + i0 * P.b_nb0")}; }
  dst_set_f32(${address("dst")}, y);`,
  });
}
