// Kernels of fused nodes (ts/webgpu/fuse.ts): a norm with its weights, products with what follows them.

import type { Glu } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { isContiguousRows, nrows, sameShape } from "../../shape.ts";
import { Type } from "../../types.ts";
import { type Caps, type Dispatch, type GpuKernel, u32 } from "../kernel.ts";
import { isReadable } from "../wgsl/quants.ts";
import { GLU_FUNCTIONS } from "./glu.ts";
import { MATH } from "../wgsl/math.ts";
import { VEC_COLUMNS, vecDispatch } from "./mul_mat.ts";
import { scaledNorm } from "./norm.ts";
import { readsProduct, windowed } from "./product.ts";

/** RMS_NORM of src0 times src1, a row that all rows share. */
export function scaledNormKernel(eps: number): GpuKernel {
  return {
    supports({ tensor, src }): boolean {
      const [x, w] = [src[0]!, src[1]!];
      const f32 = [tensor, x, w].every((t) => t.type === Type.F32 && isReadable(t));
      const rows = isContiguousRows(Type.F32, w.ne, w.nb) && nrows(w.ne) === 1 && w.ne[0] === x.ne[0];
      return f32 && rows && sameShape(tensor.ne, x.ne);
    },
    dispatches: (node, caps) => [scaledNorm(node, caps, eps)],
  };
}

/** True where the few columns of a product have one dispatch that something may follow. */
function isVector({ src }: ProgramNode, a: number, caps: Caps): boolean {
  const [w, x] = [src[a]!, src[1]!];
  return x.ne[1] <= VEC_COLUMNS && readsProduct(w, x, caps) && windowed(w, caps)?.length === 1;
}

/** MUL_MAT of src0 and src1 plus src2. Other rows still read src1 when a row is written. */
export const productSumKernel: GpuKernel = {
  inPlace: false,
  supports: (node, caps) => isVector(node, 0, caps) && isReadable(node.src[2]!) && isReadable(node.tensor),
  dispatches(node, caps): Dispatch[] {
    const r = node.src[2]!;
    const ending = {
      key: "add",
      bind: [{ name: "r", of: 2, access: "read" }] as const,
      params: ([0, 1, 2, 3] as const).map((d) => u32(`r_nb${d}`, r.nb[d])),
      value: (y: string, c: number): string =>
        `${y} + r_f32((P.first + m0 + local) * P.r_nb0 + ${c}u * P.r_nb1 + i2 * P.r_nb2 + i3 * P.r_nb3)`,
    };
    return [vecDispatch(node, caps, windowed(node.src[0]!, caps)![0]!, ending)];
  },
};

/** GLU of the products of src0 and of src2 with src1. */
export const gluProductKernel: GpuKernel = {
  inPlace: false,
  supports(node, caps): boolean {
    const { tensor, src } = node;
    const [gate, up] = [src[0]!, src[2]!];
    const alike =
      gate.type === up.type && sameShape(gate.ne, up.ne) && gate.nb.every((b, i) => b === up.nb[i]);
    const known = GLU_FUNCTIONS[tensor.params[0] as Glu]?.includes("P.") === false;
    return alike && known && tensor.type === Type.F32 && isVector(node, 0, caps) && isReadable(up);
  },
  dispatches(node, caps): Dispatch[] {
    const fn = node.tensor.params[0] as Glu;
    const ending = {
      key: `glu ${fn}`,
      second: 2,
      functions: `${MATH}
fn glu(x: f32, g: f32) -> f32 { let y = ${GLU_FUNCTIONS[fn]!}; return select(y, g, is_nan(g)); }`,
      value: (y: string, c: number): string => `glu(${y}, y${node.src[1]!.ne[1] + c}[local])`,
    };
    return [vecDispatch(node, caps, windowed(node.src[0]!, caps)![0]!, ending)];
  },
};
