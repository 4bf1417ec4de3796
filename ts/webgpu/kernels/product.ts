// What the kernels of matrix products share: operands, windows of large matrices, parameters, live columns.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { rowBytes } from "../../shape.ts";
import { isQuantized, typeName } from "../../types.ts";
import { type Bind, type Caps, nbParams, neParams, type Param, rowWindows, u32 } from "../kernel.ts";
import { isReadable, QUAD_LIB, QUAD_TYPES, quadSource, rowsAligned } from "../wgsl/quants.ts";

/** Windows of a matrix begin at multiples of so many rows. */
const ROWS = 4;

/** True when both operands are of types and at addresses that products read. */
export function readsProduct(a: Tensor, b: Tensor, caps: Caps): boolean {
  const fits = rowBytes(a.type, a.ne[0]) <= caps.maxBinding;
  return fits && [a, b].every((x) => QUAD_TYPES.includes(x.type) && isReadable(x));
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
export function productBinds(node: ProgramNode, part: Part): Bind[] {
  const window = part.bytes === undefined ? {} : { offset: part.offset, bytes: part.bytes };
  return [
    { name: "dst", of: "dst", access: "write" },
    { name: "a", of: 0, access: "read", ...window },
    { name: "b", of: 1, access: "read" },
    ...(node.src[2] === undefined ? [] : [{ name: "c", of: 2, access: "read" } as const]),
    ...(node.src[SRC_LIVE] !== undefined ? [{ name: "live", of: SRC_LIVE, access: "read" } as const] : []),
  ];
}

/** Sizes and strides of a product, rows of a counted from the start of the part. */
export function productParams({ tensor: dst, src }: ProgramNode, part: Part): Param[] {
  const [a, b, c] = [src[0]!, src[1]!, src[2]];
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
    ...(c === undefined ? [] : [...neParams("c", c).slice(1), ...nbParams("c", c).slice(1)]),
  ];
}

/**
 * Statement: stores the element of row `m` (of the part) and column `n` at byte `to`, plus the element of c, src2 of a sum
 * fused with the product, which is repeated over the columns.
 */
export function storeElement(summed: boolean, m: string, n: string, to: string, y: string): string {
  if (!summed) return `dst_set_f32(${to}, ${y});`;
  const at = `4u * (P.first + ${m}) + (${n}) % P.c_ne1 * P.c_nb1 + i2 % P.c_ne2 * P.c_nb2 + i3 % P.c_ne3 * P.c_nb3`;
  return `dst_set_f32(${to}, ${y} + c_f32(${at}));`;
}

/** Readers of both operands: a_quad and b_quad. What a key must say of them is {@link operandKey}. */
export function operandSource(a: Tensor, b: Tensor): string {
  return `${QUAD_LIB}${quadSource("a", a.type, rowsAligned(a, 4))}${quadSource("b", b.type, rowsAligned(b, 4))}`;
}

/** Types and alignments, as {@link operandSource} depends on them. */
export function operandKey(a: Tensor, b: Tensor): string {
  return [a, b]
    .map((x) => `${typeName(x.type)}${rowsAligned(x, 4) || isQuantized(x.type) ? "" : " odd"}`)
    .join(" x ");
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
