// MUL_MAT: dst[m, n] = sum over k of a[k, m] b[k, n], a repeated over dimensions 2 and 3 of b; a of any weight type.
//
// Up to VEC_COLUMNS columns: a workgroup takes ROWS rows of a, its invocations stride along k and keep ROWS x columns
// sums, which a tree (or subgroups) adds up. More columns: tiles in workgroup memory (mul_mat_tile.ts). Activations stay
// f32; those that are of a 16-bit or block type are read as such.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { type Caps, type Dispatch, type GpuKernel, u32 } from "../kernel.ts";
import { usesSubgroups } from "../wgsl/rows.ts";
import { dotLoop, LANES, redSource, reduced, ROWS } from "./dots.ts";
import { tileDispatch } from "./mul_mat_tile.ts";
import {
  hasTail,
  LIVE_COLUMNS,
  operandKey,
  operandSource,
  type Part,
  productBinds,
  productParams,
  readsProduct,
  storeElement,
  windowed,
} from "./product.ts";

/** Columns up to which rows are read once for all of them. */
const VEC_COLUMNS = 4;

export const mulMatKernel: GpuKernel = {
  note: "activations stay F32; a batch of matrices must fit into a binding",
  supports: ({ tensor, src }, caps) =>
    readsProduct(src[0]!, src[1]!, caps) &&
    windowed(src[0]!, caps) !== undefined &&
    tensor.nBytes <= caps.maxBinding,
  dispatches,
};

function dispatches(node: ProgramNode, caps: Caps): Dispatch[] {
  const columns = node.src[1]!.ne[1];
  const parts = windowed(node.src[0]!, caps)!;
  return parts.map((part) =>
    columns <= VEC_COLUMNS ? vecDispatch(node, caps, part) : tileDispatch(node, caps, part),
  );
}

function vecDispatch(node: ProgramNode, caps: Caps, part: Part): Dispatch {
  const [a, b] = [node.src[0]!, node.src[1]!];
  const live = node.src[SRC_LIVE] !== undefined;
  const subgroups = usesSubgroups(caps);
  const summed = node.src[2] !== undefined;
  const label = `mul_mat ${operandKey(a, b)} vec${b.ne[1]}${summed ? " add" : ""}`;
  return {
    label,
    key: `${label}${hasTail(a) ? " tail" : ""}${live ? " live" : ""}${subgroups ? " subgroups" : ""}`,
    source: () => vecSource(a, b, { live, subgroups, summed }),
    bind: productBinds(node, part),
    params: [...productParams(node, part), u32("groups_of_rows", Math.ceil((part.last - part.first) / ROWS))],
    groups: Math.ceil((part.last - part.first) / ROWS) * b.ne[2] * b.ne[3],
    workgroup: LANES,
    mergeable: true,
    ...(subgroups ? { enable: ["subgroups"] as const } : {}),
  };
}

interface Variant {
  readonly live: boolean;
  readonly subgroups: boolean;
  readonly summed: boolean;
}

function vecSource(a: Tensor, b: Tensor, { live, subgroups, summed }: Variant): string {
  const n = b.ne[1];
  const columns = Array.from({ length: n }, (_, c) => c);
  return `
${operandSource(a, b)}${live ? `${LIVE_COLUMNS}var<workgroup> LIVE: u32;` : ""}
${redSource(n)}
fn main(group: u32, local: u32) {
  let m0 = group % P.groups_of_rows * ${ROWS}u;
  let plane = group / P.groups_of_rows;
  let i2 = plane % P.n2; let i3 = plane / P.n2;
  ${live ? "if (local == 0u) { LIVE = columns_of(i2, i3); } if (workgroupUniformLoad(&LIVE) == 0u) { return; }" : ""}
  let at = i2 / P.r2 * P.a_nb2 + i3 / P.r3 * P.a_nb3;
  let last = P.rows - 1u;
  ${[0, 1, 2, 3].map((r) => `let w${r} = at + min(m0 + ${r}u, last) * P.a_nb1;`).join(" ")}
  let bt = i2 * P.b_nb2 + i3 * P.b_nb3;
  ${columns.map((c) => `let x${c} = bt + ${c}u * P.b_nb1; var s${c} = vec4f();`).join(" ")}
  ${dotLoop(a, b, columns)}
  ${columns.map((c) => reduced(c, subgroups)).join("")}
  if (local < ${ROWS}u && m0 + local < P.rows) {
    let to = i2 * P.dst_nb2 + i3 * P.dst_nb3 + 4u * (P.first + m0 + local);
    ${columns.map((c) => storeElement(summed, "m0 + local", `${c}u`, `to + ${c}u * P.dst_nb1`, `y${c}[local]`)).join("\n    ")}
  }
}
`;
}
