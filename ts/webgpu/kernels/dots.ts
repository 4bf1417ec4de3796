// WGSL of dot products: a workgroup takes ROWS rows of weights through one or a few columns.

import type { Tensor } from "../../graph/tensor.ts";
import { typeInfo } from "../../types.ts";
import { loadFloat } from "../wgsl/float.ts";
import { quadStep } from "../wgsl/quants.ts";
import { hasTail } from "./product.ts";

/** Rows of a workgroup: lanes of a vec4. */
export const ROWS = 4;
/** Invocations of a workgroup. */
export const LANES = 64;

/** What {@link reduced} needs for `columns` columns. */
export function redSource(columns: number): string {
  return `var<workgroup> RED: array<array<vec4f, ${LANES}>, ${columns}>;`;
}

/**
 * Statements: adds to s0, s1 .. (vec4f, a lane for each row) the products of the rows at bytes w0 .. w3 with the columns at
 * bytes x0, x1 .. that fall to invocation `local`. Quads q and q + step share words of a, so they are taken together.
 */
export function dotLoop(a: Tensor, b: Tensor, columns: readonly number[]): string {
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
  const at = (x: Tensor, row: string): string => `${row} + e * ${size(x)}u`;
  return `
  let e = P.k / 4u * 4u + local;
  if (e < P.k) {
    let v = vec4f(${[0, 1, 2, 3].map((r) => loadFloat("a", a.type, at(a, `w${r}`))).join(", ")});
    ${columns.map((c) => `s${c} += v * ${loadFloat("b", b.type, at(b, `x${c}`))};`).join(" ")}
  }`;
}

/** Statements: y0, y1 ..: the sums s0, s1 .. of all invocations. */
export function reduced(c: number, subgroups: boolean): string {
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
