// Which kernel computes a node: that of its operator, or of a pair that was fused (ts/webgpu/fuse.ts).

import { Op } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { GpuKernel, Kernels } from "../kernel.ts";
import { mulMatKernel } from "./mul_mat.ts";
import { scaledNormKernel } from "./norm.ts";

// The sum of a product: its result may not lie over what the product reads, though ADD works in place.
const productSum: GpuKernel = { ...mulMatKernel, inPlace: false };

/** Kernel of a node; undefined when there is none. */
export function kernelFor(node: ProgramNode, kernels: Kernels): GpuKernel | undefined {
  const inner = node.fused?.[0];
  if (inner === undefined) return kernels[node.tensor.op];
  if (kernels[inner.tensor.op] === undefined) return undefined;
  return inner.tensor.op === Op.MUL_MAT ? productSum : scaledNormKernel;
}
