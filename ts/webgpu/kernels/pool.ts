// POOL_1D POOL_2D: the largest element or the average of each window. F32 or F16, any strides -> F32.

import type { ProgramNode } from "../../graph/program.ts";
import { typeName } from "../../types.ts";
import { type Dispatch, type GpuKernel, i32, nbParams, neParams } from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat } from "../wgsl/float.ts";
import { isReadable } from "../wgsl/quants.ts";

// 1D: pool k s p; 2D: pool k0 k1 s0 s1 p0 p1.
const LINE = { k0: 1, k1: -1, s0: 2, s1: -1, p0: 3, p1: -1 };
const IMAGE = { k0: 1, k1: 2, s0: 3, s1: 4, p0: 5, p1: 6 };

/** Averages of a line are over the elements inside, those of an image over the whole window. */
export function poolKernel(image: boolean): GpuKernel {
  return {
    supports: ({ tensor, src }) =>
      [tensor, src[0]!].every((x) => FLOAT_TYPES.includes(x.type) && isReadable(x)),
    dispatches: (node) => [dispatch(node, image)],
  };
}

function dispatch(node: ProgramNode, image: boolean): Dispatch {
  const [dst, x] = [node.tensor, node.src[0]!];
  const most = dst.params[0] === 0;
  const name = image ? "pool_2d" : "pool_1d";
  const lines = image ? "max(0, top)" : "i32(i1)";
  return eachElement(node, {
    label: `${name} ${most ? "max" : "avg"} ${typeName(x.type)}`,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "x", of: 0, access: "read" },
    ],
    params: [
      ...nbParams("dst", dst),
      ...neParams("x", x),
      ...nbParams("x", x),
      ...Object.entries(image ? IMAGE : LINE).map(([slot, i]) => i32(slot, i < 0 ? 0 : dst.params[i]!)),
    ],
    body: `
  let left = i32(i0) * P.s0 - P.p0;
  let top = i32(i1) * P.s1 - P.p1;
  let end = min(i32(P.x_ne0), left + P.k0);
  let bottom = ${image ? "min(i32(P.x_ne1), top + P.k1)" : "i32(i1) + 1"};
  var y = ${most ? "-3.4028234e38" : "0.0"};
  for (var j = ${lines}; j < bottom; j++) {
    let at = u32(j) * P.x_nb1 + i2 * P.x_nb2 + i3 * P.x_nb3;
    for (var i = max(0, left); i < end; i++) {
      let v = ${loadFloat("x", x.type, "at + u32(i) * P.x_nb0")};
      y = ${most ? "max(y, v)" : "y + v"};
    }
  }
  ${most ? "" : `y /= f32(${image ? "P.k0 * P.k1" : "end - max(0, left)"});`}
  dst_set_f32(${address("dst")}, y);`,
  });
}
