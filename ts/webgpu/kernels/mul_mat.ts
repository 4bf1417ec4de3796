// MUL_MAT: dst[m, n] = sum over k of a[k, m] b[k, n], a repeated over dimensions 2 and 3 of b; a of any weight type.
//
// Up to VEC_COLUMNS columns: a workgroup takes ROWS rows of a, its invocations stride along k and keep ROWS x columns
// sums, which a tree (or subgroups) adds up. More columns: tiles in workgroup memory (mul_mat_tile.ts). Activations stay
// f32; those that are of a 16-bit or block type are read as such.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { rowBytes } from "../../shape.ts";
import { typeInfo, typeName } from "../../types.ts";
import {
  type Bind,
  type Caps,
  type Dispatch,
  type GpuKernel,
  type Param,
  rowWindows,
  u32,
} from "../kernel.ts";
import { loadFloat } from "../wgsl/float.ts";
import { isAligned, isReadable, QUAD_LIB, QUAD_TYPES, quadSource, quadStep } from "../wgsl/quants.ts";
import { usesSubgroups } from "../wgsl/rows.ts";
import { tileDispatch } from "./mul_mat_tile.ts";

/** Columns up to which rows are read once for all of them. */
const VEC_COLUMNS = 4;
/** Rows of a workgroup: lanes of a vec4. */
const ROWS = 4;
const LANES = 64;

/** True when both operands are of types and at addresses that products read. */
export function readsProduct(a: Tensor, b: Tensor, caps: Caps): boolean {
  const fits = rowBytes(a.type, a.ne[0]) <= caps.maxBinding;
  return fits && [a, b].every((x) => QUAD_TYPES.includes(x.type) && isReadable(x));
}

export const mulMatKernel: GpuKernel = {
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

/** Rows [first, last) of a that lie in one binding. */
export interface Part {
  readonly first: number;
  readonly last: number;
  readonly offset: number;
  readonly bytes: number | undefined;
}

/** The windows that a matrix is cut into; undefined when it cannot be. */
export function windowed(a: Tensor, caps: Caps): readonly Part[] | undefined {
  const rows = a.ne[1];
  if (a.nBytes <= caps.maxBinding) return [{ first: 0, last: rows, offset: 0, bytes: undefined }];
  if (a.ne[2] * a.ne[3] !== 1) return undefined;
  return rowWindows(rows, a.nb[1], rowBytes(a.type, a.ne[0]), caps.maxBinding, { step: ROWS });
}

/** Operands of a product. */
export function productBinds(part: Part, live: boolean): Bind[] {
  const window = part.bytes === undefined ? {} : { offset: part.offset, bytes: part.bytes };
  return [
    { name: "dst", of: "dst", access: "write" },
    { name: "a", of: 0, access: "read", ...window },
    { name: "b", of: 1, access: "read" },
    ...(live ? [{ name: "live", of: SRC_LIVE, access: "read" } as const] : []),
  ];
}

/** Sizes and strides of a product, rows of a counted from the start of the part. */
export function productParams({ tensor: dst, src }: ProgramNode, part: Part): Param[] {
  const [a, b] = [src[0]!, src[1]!];
  const strides = ([1, 2, 3] as const).flatMap((d) => [
    u32(`a_nb${d}`, a.nb[d]),
    u32(`b_nb${d}`, b.nb[d]),
    u32(`dst_nb${d}`, dst.nb[d]),
  ]);
  return [
    u32("k", a.ne[0]),
    u32("rows", part.last - part.first),
    u32("first", part.first),
    u32("columns", b.ne[1]),
    u32("n2", b.ne[2]),
    u32("n3", b.ne[3]),
    u32("r2", b.ne[2] / a.ne[2]),
    u32("r3", b.ne[3] / a.ne[3]),
    ...strides,
  ];
}

/** Readers of both operands: a_quad and b_quad. What a key must say of them is {@link operandKey}. */
export function operandSource(a: Tensor, b: Tensor): string {
  return `${QUAD_LIB}${quadSource("a", a.type, isAligned(a, 4))}${quadSource("b", b.type, isAligned(b, 4))}`;
}

/** Types and alignments, as {@link operandSource} depends on them. */
export function operandKey(a: Tensor, b: Tensor): string {
  return [a, b].map((x) => `${typeName(x.type)}${isAligned(x, 4) ? "" : " odd"}`).join(" x ");
}

/** Elements behind the last whole quad, of types without blocks. */
export function hasTail(a: Tensor): boolean {
  return a.ne[0] % 4 !== 0;
}

/** Statement: what column \`c\` (of dimension \`d\`'s batch) needs to be live. */
export const LIVE_COLUMNS: string = `
fn live_columns() -> u32 { return u32(max(0, live_i32(0u))); }
// columns of matrix (i2, i3) that are live
fn columns_of(i2: u32, i3: u32) -> u32 {
  let c = live_columns();
  if (P.n3 > 1u) { return select(0u, P.columns, i3 < c); }
  if (P.n2 > 1u) { return select(0u, P.columns, i2 < c); }
  return min(P.columns, c);
}
`;

function vecDispatch(node: ProgramNode, caps: Caps, part: Part): Dispatch {
  const [a, b] = [node.src[0]!, node.src[1]!];
  const live = node.src[SRC_LIVE] !== undefined;
  const subgroups = usesSubgroups(caps);
  const label = `mul_mat ${operandKey(a, b)} vec${b.ne[1]}`;
  return {
    label,
    key: `${label}${hasTail(a) ? " tail" : ""}${live ? " live" : ""}${subgroups ? " subgroups" : ""}`,
    source: () => vecSource(a, b, live, subgroups),
    bind: productBinds(part, live),
    params: [...productParams(node, part), u32("groups_of_rows", Math.ceil((part.last - part.first) / ROWS))],
    groups: Math.ceil((part.last - part.first) / ROWS) * b.ne[2] * b.ne[3],
    workgroup: LANES,
    ...(subgroups ? { enable: ["subgroups"] as const } : {}),
  };
}

function vecSource(a: Tensor, b: Tensor, live: boolean, subgroups: boolean): string {
  const n = b.ne[1];
  const columns = Array.from({ length: n }, (_, c) => c);
  return `
${operandSource(a, b)}${live ? `${LIVE_COLUMNS}var<workgroup> LIVE: u32;` : ""}
var<workgroup> RED: array<array<vec4f, ${LANES}>, ${n}>;
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
  ${vecLoop(a, b, columns)}
  ${columns.map((c) => reduced(c, subgroups)).join("")}
  if (local < ${ROWS}u && m0 + local < P.rows) {
    let to = i2 * P.dst_nb2 + i3 * P.dst_nb3 + 4u * (P.first + m0 + local);
    ${columns.map((c) => `dst_set_f32(to + ${c}u * P.dst_nb1, y${c}[local]);`).join(" ")}
  }
}
`;
}

// Quads q and q + step share words of a, so they are taken together.
function vecLoop(a: Tensor, b: Tensor, columns: readonly number[]): string {
  const step = quadStep(a.type);
  const use = (q: string): string => `
    { let a0 = a_quad(w0, ${q}); let a1 = a_quad(w1, ${q}); let a2 = a_quad(w2, ${q}); let a3 = a_quad(w3, ${q});
      ${columns.map((c) => `{ let x = b_quad(x${c}, ${q}); s${c} += vec4f(dot(a0, x), dot(a1, x), dot(a2, x), dot(a3, x)); }`).join("\n      ")} }`;
  if (step === 1) {
    return `for (var q = local; q < P.k / 4u; q += ${LANES}u) {${use("q")} }${hasTail(a) ? tail(a, b, columns) : ""}`;
  }
  return `for (var u = local; u < P.k / 8u; u += ${LANES}u) {
    let q = u / ${step}u * ${2 * step}u + u % ${step}u;
    ${use("q")}${use(`(q + ${step}u)`)} }`;
}

// The up to three elements behind the last quad, one invocation each.
function tail(a: Tensor, b: Tensor, columns: readonly number[]): string {
  const size = (x: Tensor): number => typeInfo(x.type)!.typeSize;
  const at = (x: Tensor, row: string): string => `${row} + i * ${size(x)}u`;
  return `
  let i = P.k / 4u * 4u + local;
  if (i < P.k) {
    let v = vec4f(${[0, 1, 2, 3].map((r) => loadFloat("a", a.type, at(a, `w${r}`))).join(", ")});
    ${columns.map((c) => `s${c} += v * ${loadFloat("b", b.type, at(b, `x${c}`))};`).join(" ")}
  }`;
}

function reduced(c: number, subgroups: boolean): string {
  if (subgroups) {
    return `
  let g${c} = subgroupAdd(s${c});
  if (sg_lane == 0u) { RED[${c}][local / sg_size] = g${c}; }
  workgroupBarrier();
  var y${c} = RED[${c}][0];
  for (var j = 1u; j < ${LANES}u / sg_size; j++) { y${c} += RED[${c}][j]; }`;
  }
  return `
  RED[${c}][local] = s${c};
  workgroupBarrier();
  for (var h = ${LANES / 2}u; h > 0u; h >>= 1u) {
    if (local < h) { RED[${c}][local] += RED[${c}][local + h]; }
    workgroupBarrier();
  }
  let y${c} = RED[${c}][0];`;
}
