// DIAG_MASK_INF DIAG_MASK_ZERO TRI DIAG: parts of matrices of F32 kept, the rest set to a number.

import type { ProgramNode } from "../../graph/program.ts";
import { type Dispatch, type GpuKernel, i32, nbParams } from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { isReadable } from "../wgsl/quants.ts";

/** Where an element is kept, by WGSL of its column and row; what stands elsewhere, as bits. */
function kernel(
  name: (node: ProgramNode) => string,
  keep: (node: ProgramNode) => string,
  rest: string,
): GpuKernel {
  return {
    supports: ({ tensor, src }) => [tensor, src[0]!].every(isReadable),
    dispatches: (node) => [dispatch(node, name(node), keep(node), rest)],
  };
}

function dispatch(node: ProgramNode, name: string, keep: string, rest: string): Dispatch {
  const [dst, a] = [node.tensor, node.src[0]!];
  return eachElement(node, {
    label: name,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read" },
    ],
    params: [...nbParams("dst", dst), ...nbParams("a", a), i32("p0", dst.params[0] ?? 0)],
    body: `
  let column = i32(i0); let line = i32(i1);
  var bits = ${rest};
  if (${keep}) { bits = a_u32(${name === "diag" ? address("a", ["i0", "0u", "i2", "i3"]) : address("a")}); }
  dst_set_u32(${address("dst")}, bits);`,
  });
}

const CAUSAL = "column <= P.p0 + line";
const TRIANGLES = ["column >= line", "column > line", "column <= line", "column < line"];

/** n_past in slot 0. */
export const diagMaskInfKernel: GpuKernel = kernel(
  () => "diag_mask_inf",
  () => CAUSAL,
  "0xff800000u",
);
/** n_past in slot 0. */
export const diagMaskZeroKernel: GpuKernel = kernel(
  () => "diag_mask_zero",
  () => CAUSAL,
  "0u",
);
/** Which triangle in slot 0. */
export const triKernel: GpuKernel = kernel(
  ({ tensor }) => `tri ${tensor.params[0]}`,
  ({ tensor }) => TRIANGLES[tensor.params[0]!]!,
  "0u",
);
export const diagKernel: GpuKernel = kernel(
  () => "diag",
  () => "column == line",
  "0u",
);
