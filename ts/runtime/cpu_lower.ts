// Rewrites a program into the form the CPU kernels want: products with block-quantised or F16 weights get their activations
// converted once, by a cast that all products of the same source share.

import { Op, SRC_LIVE, Type } from "../../assembly/abi.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import { Tensor } from "../graph/tensor.ts";
import { contiguous } from "../shape.ts";
import { dotType } from "../ops/mul_mat.ts";
import { isQuantized } from "../types.ts";

/** Operators of weights and activations that want the latter in the type of {@link dotPartner}. */
const PRODUCTS: readonly Op[] = [
  Op.MUL_MAT,
  Op.MUL_MAT_ID,
  Op.CONV_2D,
  Op.CONV_TRANSPOSE_1D,
  Op.CONV_TRANSPOSE_2D,
];

/**
 * Activation type that the dot product of a weight type wants; undefined when it takes F32. F16 as in ggml, so that
 * whole graphs agree with it; BF16 activations would lose too much.
 */
export function dotPartner(type: Type): Type | undefined {
  if (isQuantized(type)) return dotType(type);
  return type === Type.F16 ? Type.F16 : undefined;
}

/** The program with casts inserted before the first product that needs each. */
export function lowerForCpu(program: Program): Program {
  const casts = new Map<Tensor, Map<Type, Tensor>>();
  const nodes: ProgramNode[] = [];
  for (const node of program.nodes) nodes.push(...lowerNode(node, casts));
  return { leafs: program.leafs, nodes };
}

function lowerNode(node: ProgramNode, casts: Map<Tensor, Map<Type, Tensor>>): ProgramNode[] {
  const [a, b] = node.src;
  if (!PRODUCTS.includes(node.tensor.op) || a === undefined || b === undefined) return [node];
  const partner = dotPartner(a.type);
  if (partner === undefined || b.type !== Type.F32) return [node];
  const live = node.src[SRC_LIVE];
  const found = casts.get(b)?.get(partner);
  const known = found?.src[SRC_LIVE] === live ? found : undefined;
  const cast = known ?? castTo(b, partner, live);
  casts.set(b, (casts.get(b) ?? new Map<Type, Tensor>()).set(partner, cast));
  const product = { tensor: node.tensor, src: node.src.with(1, cast) };
  return known === undefined ? [{ tensor: cast, src: cast.src }, product] : [product];
}

function castTo(x: Tensor, type: Type, live: Tensor | undefined): Tensor {
  const src: (Tensor | undefined)[] = [x];
  if (live !== undefined) src[SRC_LIVE] = live;
  return new Tensor({
    op: Op.CPY,
    type,
    ne: x.ne,
    nb: contiguous(type, x.ne),
    src,
    name: x.name === "" ? "" : `${x.name} (cast)`,
  });
}
