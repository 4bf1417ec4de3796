// ACC SET: src0 copied, src1 added to or put into a window of the copy. Elements of four bytes.

import type { ProgramNode } from "../../graph/program.ts";
import { foldsOnto, isContiguous } from "../../shape.ts";
import { type Dispatch, type GpuKernel, nbParams, neParams, type Param, u32 } from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { isReadable } from "../wgsl/quants.ts";
import { copied } from "./tiles.ts";

/** Strides of the window in slots 0 to 2, its offset in 3, in place in 4. */
export function patchKernel(name: "acc" | "set"): GpuKernel {
  return {
    supports: ({ tensor, src }) =>
      isContiguous(tensor.type, tensor.ne, tensor.nb) && [tensor, src[0]!, src[1]!].every(isReadable),
    dispatches(node): Dispatch[] {
      const b = node.src[1]!;
      if (foldsOnto({ type: b.type, ne: b.ne, nb: windowOf(node) })) return [fold(name, node)];
      const inPlace = node.tensor.viewSrc !== undefined;
      return [...(inPlace ? [] : [copied(node, node.src[0]!)]), patch(name, node)];
    },
  };
}

// Live columns do not matter here: the kernel of the CPU takes all of b.
function whole({ tensor, src }: ProgramNode): ProgramNode {
  return { tensor, src: src.slice(0, 2) };
}

// A window whose rows lie over each other: an invocation for each element of the result goes through the rows in order.
function fold(name: "acc" | "set", node: ProgramNode): Dispatch {
  const [a, b] = [node.src[0]!, node.src[1]!];
  return eachElement(whole(node), {
    label: `${name} folded`,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read" },
      { name: "b", of: 1, access: "read" },
    ],
    params: [...common(node), ...neParams("b", b), ...nbParams("a", a)],
    body: `
  var bits = a_u32(${address("a")});
  for (var r = 0u; r < P.b_ne1 * P.b_ne2 * P.b_ne3; r++) {
    let r1 = r % P.b_ne1; let r2 = r / P.b_ne1 % P.b_ne2; let r3 = r / P.b_ne1 / P.b_ne2;
    let place = P.offset + r1 * P.w_nb1 + r2 * P.w_nb2 + r3 * P.w_nb3;
    if (4u * i < place || 4u * i >= place + 4u * P.b_ne0) { continue; }
    let at = (4u * i - place) / 4u * P.b_nb0 + r1 * P.b_nb1 + r2 * P.b_nb2 + r3 * P.b_nb3;
    ${name === "acc" ? "bits = bitcast<u32>(bitcast<f32>(bits) + b_f32(at));" : "bits = b_u32(at);"}
  }
  dst_set_u32(4u * i, bits);`,
  });
}

function common(node: ProgramNode): Param[] {
  return [
    ...windowOf(node).map((x, i) => u32(`w_nb${i}`, x)),
    u32("offset", node.tensor.params[3]!),
    ...nbParams("b", node.src[1]!),
  ];
}

function windowOf({ tensor: { params } }: ProgramNode): [number, number, number, number] {
  return [4, params[0]!, params[1]!, params[2]!];
}

function patch(name: "acc" | "set", node: ProgramNode): Dispatch {
  const b = node.src[1]!;
  return eachElement(whole(node), {
    label: name,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "b", of: 1, access: "read" },
    ],
    params: common(node),
    body: `
  let to = P.offset + ${address("w")};
  ${
    name === "acc"
      ? `dst_set_f32(to, dst_f32(to) + b_f32(${address("b")}));`
      : `dst_set_u32(to, b_u32(${address("b")}));`
  }`,
    ne: b.ne,
  });
}
