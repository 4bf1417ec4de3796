// SOFT_MAX: with scale, mask, ALiBi and sinks; and the slopes of ALiBi for attention.

import type { ProgramNode } from "../../graph/program.ts";
import { Type, typeName } from "../../types.ts";
import {
  type Bind,
  type Caps,
  type Dispatch,
  f32,
  type GpuKernel,
  nbParams,
  neParams,
  type Param,
  slotF32,
  u32,
} from "../kernel.ts";
import { address } from "../wgsl/elements.ts";
import { loadFloat } from "../wgsl/float.ts";
import { MATH } from "../wgsl/math.ts";
import { isReadable } from "../wgsl/quants.ts";
import { eachRow, lanesFor, usesSubgroups } from "../wgsl/rows.ts";

/** Parameters of `slope_of(h)` for `heads` heads and the largest bias. */
export function slopeParams(maxBias: number, heads: number): Param[] {
  const n = 2 ** Math.floor(Math.log2(Math.max(1, heads)));
  return [
    u32("slope_n", n),
    f32("slope_0", (-maxBias / n) * Math.LN2),
    f32("slope_1", (-maxBias / (2 * n)) * Math.LN2),
  ];
}

/** ALiBi's factor of head h; 1 without a bias. Needs MATH. */
export const SLOPE: string = `
fn slope_of(h: u32) -> f32 {
  if (h < P.slope_n) { return exp1(P.slope_0 * f32(h + 1u)); }
  return exp1(P.slope_1 * f32(2u * (h - P.slope_n) + 1u));
}
`;

/** The lowest number: stands for -infinity, which WGSL need not know. */
export const LOWEST = "-3.4028234e38";

/** Scale in slot 0, largest bias in slot 1. */
export const softMaxKernel: GpuKernel = {
  supports: ({ tensor, src }) =>
    [tensor, src[0]!, src[1], src[2]].every((t) => t === undefined || isReadable(t)),
  dispatches: (node, caps) => [dispatch(node, caps)],
};

function dispatch(node: ProgramNode, caps: Caps): Dispatch {
  const dst = node.tensor;
  const [x, mask, sinks] = node.src;
  const masked = mask === undefined ? "no mask" : typeName(mask.type);
  return eachRow(node, {
    label: `soft_max ${masked}${sinks === undefined ? "" : " sinks"}`,
    bind: binds(node),
    params: [
      ...nbParams("dst", dst),
      ...nbParams("x", x!),
      ...(mask === undefined ? [] : [...neParams("mask", mask), ...nbParams("mask", mask)]),
      ...(sinks === undefined ? [] : [u32("sinks_nb0", sinks.nb[0])]),
      f32("scale", slotF32(dst.params[0])),
      ...slopeParams(slotF32(dst.params[1]), dst.ne[2]),
    ],
    functions: MATH + SLOPE + logit(mask?.type),
    body: body(mask !== undefined, sinks !== undefined),
    lanes: lanesFor(dst.ne[0]),
    subgroups: usesSubgroups(caps),
  });
}

function binds(node: ProgramNode): Bind[] {
  const names = ["x", "mask", "sinks"];
  const sources = names.flatMap((name, i): Bind[] =>
    node.src[i] === undefined ? [] : [{ name, of: i, access: "read" }],
  );
  return [{ name: "dst", of: "dst", access: "write" }, ...sources];
}

// scale x + slope mask; what is hidden is the lowest number, a NaN stays.
function logit(mask: Type | undefined): string {
  const biased =
    mask === undefined
      ? ""
      : ` + slope * ${loadFloat("mask", mask, `mt + i * ${mask === Type.F32 ? 4 : 2}u`)}`;
  return `
fn logit(at: u32, mt: u32, slope: f32, i: u32) -> f32 {
  let z = x_f32(at + 4u * i) * P.scale${biased};
  if (is_nan(z)) { return z; }
  return max(z, ${LOWEST});
}
fn weight(z: f32, top: f32) -> f32 {
  if (is_nan(z)) { return z; }
  return exp(max(z - top, -104.0));
}
`;
}

function body(masked: boolean, sinks: boolean): string {
  const mt = masked ? "i1 * P.mask_nb1 + i2 % P.mask_ne2 * P.mask_nb2 + i3 % P.mask_ne3 * P.mask_nb3" : "0u";
  return `
  let at = ${address("x", ["0u", "i1", "i2", "i3"])};
  let to = ${address("dst", ["0u", "i1", "i2", "i3"])};
  let mt = ${mt};
  let slope = slope_of(i2);
  var top = ${LOWEST};
  for (var i = local; i < P.n0; i += LANES) {
    let z = logit(at, mt, slope, i);
    if (!is_nan(z)) { top = max(top, z); }
  }
  top = all_max(local, top);
  ${sinks ? `let sink = max(sinks_f32(i2 * P.sinks_nb0), ${LOWEST}); top = max(top, sink);` : ""}
  var s = 0.0;
  for (var i = local; i < P.n0; i += LANES) { s += weight(logit(at, mt, slope, i), top); }
  s = all_sum(local, s);
  ${sinks ? "s += weight(sink, top);" : ""}
  let factor = select(1.0 / s, 0.0, top <= ${LOWEST});
  for (var i = local; i < P.n0; i += LANES) {
    dst_set_f32(to + 4u * i, weight(logit(at, mt, slope, i), top) * factor);
  }`;
}
