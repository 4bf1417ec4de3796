// ROPE: pairs of elements rotated by angles that grow with the position of the token; modes as in assembly/kernels/rope.ts.
//
// Angles are the running f32 product of ggml: each invocation multiplies its way to its own pair. What is the same for
// all pairs (ratio, YaRN's ramp, magnitude) comes as parameters.

import { RopeMode, RopeParam } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { Type, typeName } from "../../types.ts";
import {
  type Bind,
  type Dispatch,
  f32,
  type GpuKernel,
  i32,
  nbParams,
  type Param,
  slotF32,
  u32,
} from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { loadFloat, roundSource, storeFloat } from "../wgsl/float.ts";
import { TURN } from "../wgsl/math.ts";
import { needsAtomic } from "../wgsl/quantize.ts";
import { isReadable } from "../wgsl/quants.ts";

export const ropeKernel: GpuKernel = {
  supports: ({ tensor, src }) =>
    [tensor, src[0]!, src[1]!, src[2]].every((t) => t === undefined || isReadable(t)),
  dispatches: (node) => [dispatch(node)],
};

function dispatch(node: ProgramNode): Dispatch {
  const dst = node.tensor;
  const [x, pos, factors] = node.src;
  const mode = dst.params[RopeParam.MODE]!;
  const pairs = (mode === RopeMode.VISION ? dst.ne[0] : dst.params[RopeParam.N_DIMS]!) / 2;
  const label = `rope ${mode} ${typeName(dst.type)}${factors === undefined ? "" : " factors"}`;
  return eachElement(node, {
    label,
    bind: binds(dst, factors !== undefined),
    params: [
      ...nbParams("dst", dst),
      ...nbParams("x", x!),
      u32("pos_nb0", pos!.nb[0]),
      u32("factors_nb0", factors?.nb[0] ?? 0),
      u32("pairs", pairs),
      ...constants(dst),
    ],
    functions: `${TURN}${roundSource(dst.type)}${angleSource(mode, factors !== undefined)}`,
    body: body(dst.type, mode === 0),
    // an invocation for each pair and for each element that is not rotated
    ne: [dst.ne[0] - pairs, dst.ne[1], dst.ne[2], dst.ne[3]],
  });
}

function binds(dst: Tensor, factors: boolean): Bind[] {
  return [
    { name: "dst", of: "dst", access: "write", atomic: needsAtomic(dst.type) },
    { name: "x", of: 0, access: "read" },
    { name: "pos", of: 1, access: "read" },
    ...(factors ? [{ name: "factors", of: 2, access: "read" } as const] : []),
  ];
}

function constants({ params }: Tensor): Param[] {
  const float = (slot: number): number => slotF32(params[slot]);
  const n = params[RopeParam.N_DIMS]!;
  const base = float(RopeParam.FREQ_BASE);
  const ext = float(RopeParam.EXT_FACTOR);
  // the pair at which a wave makes beta turns over the original context
  const pairOf = (beta: number): number =>
    (n * Math.log(params[RopeParam.CTX_ORIG]! / (beta * 2 * Math.PI))) / (2 * Math.log(base));
  const low = ext === 0 ? 0 : Math.max(0, Math.floor(Math.fround(pairOf(float(RopeParam.BETA_FAST)))));
  const high = ext === 0 ? 0 : Math.min(n - 1, Math.ceil(Math.fround(pairOf(float(RopeParam.BETA_SLOW)))));
  const scale = float(RopeParam.FREQ_SCALE);
  const magnitude = float(RopeParam.ATTN_FACTOR) * (ext === 0 ? 1 : 1 + 0.1 * Math.log(1 / scale));
  return [
    f32("ratio", Math.fround(base) ** Math.fround(-2 / n)),
    f32("scale", scale),
    f32("ext", ext),
    f32("low", low),
    f32("range", Math.max(0.001, high - low)),
    f32("magnitude", magnitude),
    u32("offset", params[RopeParam.OFFSET] ?? 0),
    ...[0, 1, 2, 3].map((i) => i32(`s${i}`, params[RopeParam.SECTIONS + i] ?? 0)),
  ];
}

// `angle(p, token)`: that of pair p. With several axes a pair follows the axis of its section.
function angleSource(mode: number, factors: boolean): string {
  return `
${(mode & RopeMode.MULTI_AXIS) === 0 ? "fn axis_of(p: i32) -> i32 { return 0; }" : axisSource(mode)}
fn angle(p: u32, token: u32) -> f32 {
  let axis = u32(axis_of(i32(p)));
  var theta = f32(pos_i32((axis * P.n2 + token) * P.pos_nb0));
  for (var i = ${mode === RopeMode.VISION ? "section_start(i32(p))" : "0u"}; i < p; i++) { theta *= P.ratio; }
  ${factors ? "theta /= factors_f32(p * P.factors_nb0);" : ""}
  var a = P.scale * theta;
  if (P.ext != 0.0) {
    let mix = (1.0 - clamp((f32(p) - P.low) / P.range, 0.0, 1.0)) * P.ext;
    a = a * (1.0 - mix) + theta * mix;
  }
  return a;
}
`;
}

function axisSource(mode: number): string {
  const axis =
    mode === RopeMode.INTERLEAVED
      ? `let phase = k % 3;
  let s = select(select(P.s2, P.s1, phase == 1), P.s0, phase == 0);
  return select(3, phase, k < 3 * s);`
      : `if (k < P.s0) { return 0; }
  if (k < P.s0 + P.s1) { return 1; }
  return select(3, 2, k < P.s0 + P.s1 + P.s2);`;
  return `
fn sector(p: i32) -> i32 { return p % (P.s0 + P.s1 + P.s2 + P.s3); }
fn axis_of(p: i32) -> i32 {
  let k = sector(p);
  ${axis}
}
// first pair of the section of p
fn section_start(p: i32) -> u32 {
  var start = 0;
  let k = sector(p);
  if (k >= P.s0) { start = P.s0; }
  if (k >= P.s0 + P.s1) { start = P.s0 + P.s1; }
  if (k >= P.s0 + P.s1 + P.s2) { start = P.s0 + P.s1 + P.s2; }
  return u32(p - k + start);
}
`;
}

function body(type: Type, adjacent: boolean): string {
  const size = type === Type.F32 ? 4 : 2;
  const first = adjacent ? "2u * i0" : "i0";
  const apart = adjacent ? "1u" : "P.pairs";
  return `
  let at = ${address("x", ["0u", "i1", "i2", "i3"])};
  let to = ${address("dst", ["0u", "i1", "i2", "i3"])};
  if (i0 >= P.pairs) {
    var e = i0 - P.pairs;                     // an element before or behind the rotated ones
    if (e >= P.offset) { e += 2u * P.pairs; }
    let y = ${loadFloat("x", type, `at + e * ${size}u`)};
    ${storeFloat("dst", type, `to + e * ${size}u`, "y")}
    return;
  }
  let turned = turn(angle(i0, i2)) * P.magnitude;
  let k = (P.offset + ${first}) * ${size}u;
  let l = k + ${apart} * ${size}u;
  let a = ${loadFloat("x", type, "at + k")};
  let b = ${loadFloat("x", type, "at + l")};
  let u = a * turned.x - b * turned.y;
  let v = a * turned.y + b * turned.x;
  ${storeFloat("dst", type, "to + k", "u")}
  ${storeFloat("dst", type, "to + l", "v")}`;
}
