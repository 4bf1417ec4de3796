// WGSL of workgroups that have a row to themselves: where it lies, and sums and maxima over their invocations.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Shape } from "../../shape.ts";
import { type Bind, type Caps, type Dispatch, type Param, u32 } from "../kernel.ts";
import { LIVE_ROWS, liveBind } from "./elements.ts";

/** Invocations for rows of `n` elements. */
export function lanesFor(n: number): number {
  return n >= 1024 ? 256 : 64;
}

/** What is done for each row of a shape, the result's when `ne` is absent. */
export interface EachRow {
  readonly label: string;
  readonly bind: readonly Bind[];
  readonly params?: readonly Param[];
  readonly functions?: string;
  /** statements for row (i1, i2, i3), number `row`, as invocation `local` of LANES; barriers may stand in it */
  readonly body: string;
  readonly ne?: Shape;
  readonly lanes: number;
  /** sums and maxima go through subgroups */
  readonly subgroups?: boolean;
  /** no barrier stands in control flow that depends on parameters: see {@link Dispatch.mergeable} */
  readonly mergeable?: boolean;
}

/** One dispatch with a workgroup for each row; dead columns are left out as in eachElement(). */
export function eachRow(node: ProgramNode, each: EachRow): Dispatch {
  const ne = each.ne ?? node.tensor.ne;
  const rows = ne[1] * ne[2] * ne[3];
  const live = node.src[SRC_LIVE] !== undefined;
  const subgroups = each.subgroups === true;
  return {
    label: each.label,
    key: `${each.label} ${each.lanes}${live ? " live" : ""}${subgroups ? " subgroups" : ""}`,
    source: () => source(each, live),
    bind: live ? [...each.bind, liveBind()] : each.bind,
    params: [...ne.map((x, i) => u32(`n${i}`, x)), ...(each.params ?? [])],
    groups: rows,
    workgroup: each.lanes,
    mergeable: each.mergeable === true,
    ...(subgroups ? { enable: ["subgroups"] as const } : {}),
  };
}

/** True where sums over a workgroup should go through subgroups. */
export function usesSubgroups(caps: Caps): boolean {
  return caps.subgroups && caps.subgroupMin >= 4;
}

function source({ functions = "", body, lanes, subgroups = false }: EachRow, live: boolean): string {
  return `
const LANES = ${lanes}u;
${live ? `${LIVE_ROWS}var<workgroup> ROWS: u32;` : ""}
${reduceSource(lanes, subgroups)}
${functions}
fn main(group: u32, local: u32) {
  ${live ? "if (local == 0u) { ROWS = live_rows(); } if (group >= workgroupUniformLoad(&ROWS)) { return; }" : ""}
  let row = group;
  let i1 = row % P.n1; let plane = row / P.n1;
  let i2 = plane % P.n2; let i3 = plane / P.n2;
  ${body}
}
`;
}

/**
 * `all_sum(local, x)` and `all_max(local, x)` over a workgroup, the same value for every invocation. Sums are a tree,
 * so they do not depend on anything but `lanes` (and on the size of subgroups where those are used).
 */
export function reduceSource(lanes: number, subgroups: boolean): string {
  return ["sum", "max"].map((fn) => (subgroups ? subgroupTree(fn) : tree(fn, lanes))).join("") + store(lanes);
}

const store = (lanes: number): string => `var<workgroup> RED: array<f32, ${lanes}>;\n`;

const join = (fn: string, a: string, b: string): string => (fn === "sum" ? `${a} + ${b}` : `max(${a}, ${b})`);

function tree(fn: string, lanes: number): string {
  return `
fn all_${fn}(local: u32, x: f32) -> f32 {
  RED[local] = x;
  workgroupBarrier();
  for (var h = ${lanes / 2}u; h > 0u; h >>= 1u) {
    if (local < h) { RED[local] = ${join(fn, "RED[local]", "RED[local + h]")}; }
    workgroupBarrier();
  }
  let y = RED[0];
  workgroupBarrier();
  return y;
}
`;
}

// Subgroups are stretches of neighbouring invocations, as every device has them for workgroups of one dimension.
function subgroupTree(fn: string): string {
  return `
fn all_${fn}(local: u32, x: f32) -> f32 {
  let s = ${fn === "sum" ? "subgroupAdd(x)" : "subgroupMax(x)"};
  if (sg_lane == 0u) { RED[local / sg_size] = s; }
  workgroupBarrier();
  var y = RED[0];
  for (var j = 1u; j < LANES / sg_size; j++) { y = ${join(fn, "y", "RED[j]")}; }
  workgroupBarrier();
  return y;
}
`;
}
