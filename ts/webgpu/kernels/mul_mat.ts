// MUL_MAT: dst[m, n] = sum over k of a[k, m] b[k, n], a repeated over dimensions 2 and 3 of b; a of any weight type.
//
// Up to VEC_COLUMNS columns: a workgroup takes ROWS rows of a, its invocations stride along k and keep ROWS x columns
// sums, which a tree (or subgroups) adds up. More columns: tiles in workgroup memory (mul_mat_tile.ts). Activations stay
// f32; those that are of a 16-bit or block type are read as such.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { type Caps, type Dispatch, type GpuKernel, u32 } from "../kernel.ts";
import { quadSource, rowsAligned } from "../wgsl/quants.ts";
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
export const VEC_COLUMNS = 4;

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

/** What a second product, of src2 with the same columns, does to the first: `glu(x, g)` in WGSL. */
export interface Gate {
  readonly key: string;
  readonly functions: string;
}

/** Up to VEC_COLUMNS columns of one part. src2 is what is added, or with a gate the weights of the second product. */
export function vecDispatch(node: ProgramNode, caps: Caps, part: Part, gate?: Gate): Dispatch {
  const [a, b] = [node.src[0]!, node.src[1]!];
  const live = node.src[SRC_LIVE] !== undefined;
  const subgroups = usesSubgroups(caps);
  const summed = gate === undefined && node.src[2] !== undefined;
  const label = `mul_mat ${operandKey(a, b)} vec${b.ne[1]}${summed ? " add" : ""}${gate === undefined ? "" : ` ${gate.key}`}`;
  return {
    label,
    key: `${label}${hasTail(a) ? " tail" : ""}${live ? " live" : ""}${subgroups ? " subgroups" : ""}`,
    source: () => vecSource(a, b, { live, subgroups, summed, gate }),
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
  readonly gate: Gate | undefined;
}

function vecSource(a: Tensor, b: Tensor, { live, subgroups, summed, gate }: Variant): string {
  const n = b.ne[1];
  const columns = Array.from({ length: n }, (_, c) => c);
  const sums = gate === undefined ? columns : [...columns, ...columns.map((c) => n + c)];
  const value = (c: number): string =>
    gate === undefined ? `y${c}[local]` : `glu(y${c}[local], y${n + c}[local])`;
  return `
${operandSource(a, b)}${gate === undefined ? "" : quadSource("c", a.type, rowsAligned(a, 4))}${live ? `${LIVE_COLUMNS}var<workgroup> LIVE: u32;` : ""}
${redSource(sums.length)}${gate?.functions ?? ""}
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
  ${gate === undefined ? "" : secondLoop(a, b, columns)}
  ${sums.map((c) => reduced(c, subgroups)).join("")}
  if (local < ${ROWS}u && m0 + local < P.rows) {
    let to = i2 * P.dst_nb2 + i3 * P.dst_nb3 + 4u * (P.first + m0 + local);
    ${columns.map((c) => storeElement(summed, "m0 + local", `${c}u`, `to + ${c}u * P.dst_nb1`, value(c))).join("\n    ")}
  }
}
`;
}

// The loop of a again, over the weights c: rows lie at the same bytes, sums come behind the others.
function secondLoop(a: Tensor, b: Tensor, columns: readonly number[]): string {
  const sums = columns.map((c) => `var s${columns.length + c} = vec4f();`).join(" ");
  const loop = dotLoop(a, b, columns)
    .replace(/\ba_/g, "c_")
    .replace(/\bs(\d)\b/g, (_, c: string) => `s${Number(c) + columns.length}`);
  return `${sums}\n  { ${loop} }`;
}
