// ADD SUB MUL DIV ADD1: src1 is repeated over src0; float types, mixed; ADD also onto a src0 of a block type.

import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { isContiguous, nelements, sameShape } from "../../shape.ts";
import { isQuantized, typeInfo, typeName } from "../../types.ts";
import { type Bind, type Dispatch, type GpuKernel, nbParams, neParams, type Param } from "../kernel.ts";
import { address, eachElement, repeated } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat, roundSource, storeFloat } from "../wgsl/float.ts";
import { isReadable, QUAD_LIB, quadSource } from "../wgsl/quants.ts";
import { BLOCK_TYPES, blockSource, needsAtomic } from "../wgsl/quantize.ts";

/** Kernel of a binary operator of WGSL. */
export function binaryKernel(operator: string): GpuKernel {
  return {
    supports({ tensor, src }): boolean {
      const [a, b] = [src[0]!, src[1]!];
      if (![tensor, a, b].every(isReadable) || !FLOAT_TYPES.includes(b.type)) return false;
      if (isQuantized(a.type))
        return operator === "+" && BLOCK_TYPES.includes(a.type) && a.type === tensor.type;
      return [tensor, a].every((t) => FLOAT_TYPES.includes(t.type));
    },
    dispatches: (node) => [isQuantized(node.tensor.type) ? addToBlocks(node) : dispatch(operator, node)],
  };
}

function operands(dst: Tensor, a: Tensor, b: Tensor): Param[] {
  return [...nbParams("dst", dst), ...nbParams("a", a), ...neParams("b", b), ...nbParams("b", b)];
}

function binds(atomic: boolean): Bind[] {
  return [
    { name: "dst", of: "dst", access: "write", atomic },
    { name: "a", of: 0, access: "read" },
    { name: "b", of: 1, access: "read" },
  ];
}

function dispatch(operator: string, node: ProgramNode): Dispatch {
  const dst = node.tensor;
  const [a, b] = [node.src[0]!, node.src[1]!];
  const packed = [dst, a, b].every((t) => isContiguous(t.type, t.ne, t.nb));
  const one = nelements(b.ne) === 1;
  const same = sameShape(a.ne, b.ne);
  const at = one ? "0u" : same ? address("b") : repeated("b");
  return eachElement(node, {
    label: `${operator} ${[dst, a, b].map((t) => typeName(t.type)).join(" ")}${one ? " one" : same ? " same" : ""}`,
    bind: binds(needsAtomic(dst.type)),
    params: operands(dst, a, b),
    functions: roundSource(dst.type),
    body: `
  let y = ${loadFloat("a", a.type, address("a"))} ${operator} ${loadFloat("b", b.type, at)};
  ${storeFloat("dst", dst.type, address("dst"), "y")}`,
    flat: packed && (same || one),
  });
}

// An invocation for each block: read, added to, quantised again.
function addToBlocks(node: ProgramNode): Dispatch {
  const dst = node.tensor;
  const [a, b] = [node.src[0]!, node.src[1]!];
  const { blockSize } = typeInfo(dst.type)!;
  return eachElement(node, {
    label: `+ ${typeName(dst.type)} ${typeName(b.type)}`,
    bind: binds(needsAtomic(dst.type)),
    params: operands(dst, a, b),
    functions: `${QUAD_LIB}${quadSource("a", a.type)}${blockSource("dst", dst.type)}`,
    body: `
  let row = i1 * P.a_nb1 + i2 * P.a_nb2 + i3 * P.a_nb3;
  let bt = i1 % P.b_ne1 * P.b_nb1 + i2 % P.b_ne2 * P.b_nb2 + i3 % P.b_ne3 * P.b_nb3;
  for (var k = 0u; k < 8u; k++) {
    let x = a_quad(row, i0 * 8u + k);
    for (var j = 0u; j < 4u; j++) {
      let c = i0 * 32u + k * 4u + j;
      X[k * 4u + j] = x[j] + ${loadFloat("b", b.type, "bt + c % P.b_ne0 * P.b_nb0")};
    }
  }
  dst_block(${address("dst")});`,
    ne: [dst.ne[0] / blockSize, dst.ne[1], dst.ne[2], dst.ne[3]],
  });
}
