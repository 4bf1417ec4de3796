// ARANGE TIMESTEP_EMBEDDING: numbers made from a rule.

import { type Dispatch, f32, type GpuKernel, slotF32, u32 } from "../kernel.ts";
import { eachElement } from "../wgsl/elements.ts";
import { MATH, TURN } from "../wgsl/math.ts";
import { isReadable } from "../wgsl/quants.ts";

/** start, stop, step. */
export const arangeKernel: GpuKernel = {
  supports: () => true,
  dispatches: (node): Dispatch[] => [
    eachElement(node, {
      label: "arange",
      bind: [{ name: "dst", of: "dst", access: "write" }],
      params: [f32("start", slotF32(node.tensor.params[0])), f32("step", slotF32(node.tensor.params[2]))],
      body: "dst_set_f32(4u * i, P.start + P.step * f32(i));",
    }),
  ],
};

/** dim, longest period: cosines, then sines, of each time at falling frequencies. */
export const timestepEmbeddingKernel: GpuKernel = {
  supports: ({ src }) => isReadable(src[0]!),
  dispatches: (node): Dispatch[] => [
    eachElement(node, {
      label: "timestep_embedding",
      bind: [
        { name: "dst", of: "dst", access: "write" },
        { name: "t", of: 0, access: "read" },
      ],
      params: [u32("t_nb0", node.src[0]!.nb[0]), f32("log", -Math.log(Math.fround(node.tensor.params[1]!)))],
      functions: MATH + TURN,
      body: `
  let half = P.n0 / 2u;
  if (i0 >= 2u * half) { dst_set_f32(4u * i, 0.0); return; }
  let v = turn(t_f32(i1 * P.t_nb0) * exp1(P.log * f32(i0 % half) / f32(half)));
  dst_set_f32(4u * i, select(v.y, v.x, i0 < half));`,
    }),
  ],
};
