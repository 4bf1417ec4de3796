// GLU: act(x) * g, halves of each row of one source or two sources.

import { Glu } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { isContiguous } from "../../shape.ts";
import { typeInfo, typeName } from "../../types.ts";
import { type Dispatch, f32, type GpuKernel, nbParams, slotF32, u32 } from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat, roundSource, storeFloat } from "../wgsl/float.ts";
import { MATH } from "../wgsl/math.ts";
import { needsAtomic } from "../wgsl/quantize.ts";
import { isReadable } from "../wgsl/quants.ts";

/** Expressions of x and g; some use parameters. */
export const GLU_FUNCTIONS: { readonly [fn: number]: string } = {
  [Glu.REGLU]: "select(0.0, x, x > 0.0) * g",
  [Glu.GEGLU]: "gelu(x) * g",
  [Glu.SWIGLU]: "silu(x) * g",
  [Glu.SWIGLU_OAI]: "oai(min(x, P.limit)) * (clamp(g, -P.limit, P.limit) + 1.0)",
  [Glu.GEGLU_ERF]: "gelu_erf(x) * g",
  [Glu.GEGLU_QUICK]: "gelu_quick(x) * g",
};

/** Function in slot 0, swapped in 1, alpha in 2, limit in 3. */
export const gluKernel: GpuKernel = {
  supports: ({ tensor, src }) =>
    [tensor, src[0]!, src[1] ?? src[0]!].every((t) => FLOAT_TYPES.includes(t.type) && isReadable(t)),
  dispatches: (node) => [dispatch(node)],
};

function dispatch(node: ProgramNode): Dispatch {
  const dst = node.tensor;
  const [x, gate] = node.src;
  const two = gate !== undefined;
  const g = gate ?? x!;
  const fn = dst.params[0] as Exclude<Glu, Glu.COUNT>;
  const half = two ? 0 : dst.ne[0] * typeInfo(x!.type)!.typeSize;
  const swapped = !two && dst.params[1] !== 0;
  return eachElement(node, {
    label: `${Glu[fn].toLowerCase()} ${typeName(dst.type)} ${two ? 2 : 1}`,
    bind: [
      { name: "dst", of: "dst", access: "write", atomic: needsAtomic(dst.type) },
      { name: "x", of: 0, access: "read" },
      ...(two ? [{ name: "g", of: 1, access: "read" } as const] : []),
    ],
    params: [
      ...nbParams("dst", dst),
      ...nbParams("x", x!),
      ...nbParams("g", g),
      u32("x_half", swapped ? half : 0),
      u32("g_half", swapped ? 0 : half),
      f32("alpha", slotF32(dst.params[2])),
      f32("limit", slotF32(dst.params[3])),
    ],
    functions: `${MATH}${roundSource(dst.type)}
fn oai(x: f32) -> f32 { return x * sigmoid(P.alpha * x); }`,
    body: `
  let x = ${loadFloat("x", x!.type, `P.x_half + ${address("x")}`)};
  let g = ${loadFloat(two ? "g" : "x", g.type, `P.g_half + ${address("g")}`)};
  var y = ${GLU_FUNCTIONS[fn]!};
  if (is_nan(g)) { y = g; }
  ${storeFloat("dst", dst.type, address("dst"), "y")}`,
    flat: two && [dst, x!, g].every((t) => isContiguous(t.type, t.ne, t.nb)),
  });
}
