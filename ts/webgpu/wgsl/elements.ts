// WGSL of coordinates: from the number of an element to its indices, from indices to bytes.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { nelements, type Shape } from "../../shape.ts";
import type { Bind, Dispatch, Param } from "../kernel.ts";
import { u32 } from "../kernel.ts";

/** Invocations of a workgroup, where each has an element to itself. */
export const LANES = 64;

/** Expression: byte address of element (i0, i1, i2, i3) of an operand whose strides are P.a_nb0 .. 3. */
export function address(a: string, index: readonly string[] = ["i0", "i1", "i2", "i3"]): string {
  return index.map((i, d) => `${i} * P.${a}_nb${d}`).join(" + ");
}

/** The same, indices wrapped around P.a_ne0 .. 3: the operand is repeated. */
export function repeated(a: string): string {
  return address(
    a,
    [0, 1, 2, 3].map((d) => `(i${d} % P.${a}_ne${d})`),
  );
}

/** Statements: the indices x0 .. x3 of element `index` of a shape P.a_ne0 .. 3, counted without gaps. */
export function unravel(x: string, index: string, a: string): string {
  return `let ${x}0 = ${index} % P.${a}_ne0; let ${x}_row = ${index} / P.${a}_ne0;
  let ${x}1 = ${x}_row % P.${a}_ne1; let ${x}_plane = ${x}_row / P.${a}_ne1;
  let ${x}2 = ${x}_plane % P.${a}_ne2; let ${x}3 = ${x}_plane / P.${a}_ne2;`;
}

/** What is done for each element of a shape, the result's when `ne` is absent. */
export interface EachElement {
  readonly label: string;
  readonly bind: readonly Bind[];
  readonly params?: readonly Param[];
  /** functions that the body calls */
  readonly functions?: string;
  /** statements for the element (i0, i1, i2, i3), u32, number i */
  readonly body: string;
  readonly ne?: Shape;
  /** all operands have this shape and no gaps: i0 is i, the other indices are 0 */
  readonly flat?: boolean;
}

/**
 * One dispatch with an invocation for each element. Where the node names a live count (SRC_LIVE), columns behind it are
 * left out.
 */
export function eachElement(node: ProgramNode, each: EachElement): Dispatch {
  const ne = each.ne ?? node.tensor.ne;
  const n = nelements(ne);
  const live = node.src[SRC_LIVE] !== undefined;
  const key = `${each.label}${each.flat === true ? " flat" : ""}${live ? " live" : ""}`;
  return {
    label: each.label,
    key,
    source: () => source(each, live),
    bind: live ? [...each.bind, liveBind()] : each.bind,
    params: [u32("n", n), ...ne.map((x, i) => u32(`n${i}`, x)), ...(each.params ?? [])],
    groups: Math.ceil(n / LANES),
    workgroup: LANES,
    mergeable: true,
  };
}

/** The operand of {@link liveSource}. */
export function liveBind(): Bind {
  return { name: "live", of: SRC_LIVE, access: "read" };
}

/** `live_rows()`: rows of a shape P.n0 .. 3 whose columns are live (assembly/node.ts). */
export const LIVE_ROWS: string = `
fn live_rows() -> u32 {
  let c = u32(max(0, live_i32(0u)));
  if (P.n3 > 1u) { return min(c, P.n3) * P.n1 * P.n2; }
  if (P.n2 > 1u) { return min(c, P.n2) * P.n1; }
  return min(c, P.n1);
}
`;

function source({ functions = "", body, flat = false }: EachElement, live: boolean): string {
  const indices = flat
    ? "let i0 = i; let i1 = 0u; let i2 = 0u; let i3 = 0u;"
    : `let i0 = i % P.n0; let i_row = i / P.n0;
  let i1 = i_row % P.n1; let i_plane = i_row / P.n1;
  let i2 = i_plane % P.n2; let i3 = i_plane / P.n2;`;
  return `${live ? LIVE_ROWS : ""}${functions}
fn main(group: u32, local: u32) {
  let i = group * ${LANES}u + local;
  if (i >= P.n) { return; }
  ${live ? "if (i / P.n0 >= live_rows()) { return; }" : ""}
  ${indices}
  ${body}
}
`;
}
