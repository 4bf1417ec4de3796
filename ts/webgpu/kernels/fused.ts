// Which kernel computes a node: that of its operator, or of a pair that was fused (ts/webgpu/fuse.ts).

import { type Glu, Op } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import type { GpuKernel, Kernels } from "../kernel.ts";
import { sameShape } from "../../shape.ts";
import { Type } from "../../types.ts";
import { MATH } from "../wgsl/math.ts";
import { rowsAligned } from "../wgsl/quants.ts";
import { GLU_FUNCTIONS } from "./glu.ts";
import { type Gate, mulMatKernel, VEC_COLUMNS, vecDispatch } from "./mul_mat.ts";
import { windowed } from "./product.ts";
import { scaledNormKernel } from "./norm.ts";

// The sum of a product: its result may not lie over what the product reads, though ADD works in place.
const productSum: GpuKernel = { ...mulMatKernel, inPlace: false };

// Functions with parameters of their own are left alone.
function gateOf({ tensor }: ProgramNode): Gate | undefined {
  const fn = tensor.params[0] as Glu;
  const y = GLU_FUNCTIONS[fn];
  if (y === undefined || y.includes("P.")) return undefined;
  const functions = `${MATH}
fn glu(x: f32, g: f32) -> f32 { let y = ${y}; return select(y, g, is_nan(g)); }`;
  return { key: `glu ${fn}`, functions };
}

/** GLU of the products of src0 and of src2 with src1, a few columns. Other rows still read src1 when one is written. */
const gatedProduct: GpuKernel = {
  inPlace: false,
  supports(node, caps): boolean {
    const [gate, x, up] = node.src as readonly [Tensor, Tensor, Tensor];
    const alike =
      gate.type === up.type &&
      sameShape(gate.ne, up.ne) &&
      gate.nb.every((b, i) => b === up.nb[i]) &&
      rowsAligned(gate, 4) === rowsAligned(up, 4);
    const few = x.ne[1] <= VEC_COLUMNS && node.tensor.type === Type.F32 && gateOf(node) !== undefined;
    const product = { tensor: node.tensor, src: [gate, x] };
    const second = { tensor: node.tensor, src: [up, x] };
    const both = [product, second].every((n) => mulMatKernel.supports(n, caps));
    return alike && few && both && windowed(gate, caps)!.length === 1;
  },
  dispatches: (node, caps) => [vecDispatch(node, caps, windowed(node.src[0]!, caps)![0]!, gateOf(node))],
};

/** Kernel of a node; undefined when there is none. */
export function kernelFor(node: ProgramNode, kernels: Kernels): GpuKernel | undefined {
  const inner = node.fused?.[0];
  if (inner === undefined) return kernels[node.tensor.op];
  if (kernels[inner.tensor.op] === undefined) return undefined;
  if (node.tensor.op === Op.GLU) return gatedProduct;
  return inner.tensor.op === Op.MUL_MAT ? productSum : scaledNormKernel;
}
