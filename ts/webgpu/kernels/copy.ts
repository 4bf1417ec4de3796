// DUP CONT CPY: elements of src0 in row-major order into the result, whose shape may differ when the counts agree.

import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { sameShape, type Shape } from "../../shape.ts";
import { isQuantized, Type, typeInfo, typeName } from "../../types.ts";
import { type Bind, type Dispatch, type GpuKernel, nbParams, neParams } from "../kernel.ts";
import { address, eachElement, unravel } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat } from "../wgsl/float.ts";
import { convertElement, converts, convertSource, moveUnit, unitParams, unitsOf } from "../wgsl/move.ts";
import { BLOCK_TYPES, blockSource, needsAtomic } from "../wgsl/quantize.ts";
import { isReadable, QUAD_LIB, QUAD_TYPES, quadSource } from "../wgsl/quants.ts";

export const copyKernel: GpuKernel = {
  note: "blocks of 256 and blocks with importances are made by the CPU only, by a search",
  supports({ tensor: dst, src }): boolean {
    const a = src[0]!;
    // importances (src2) belong to a search, which is left to the CPU
    if (src[2] !== undefined || ![dst, a].every(isReadable)) return false;
    if (a.type === dst.type || converts(a.type, dst.type)) return true;
    if (isQuantized(a.type)) return QUAD_TYPES.includes(a.type) && dst.type === Type.F32;
    return BLOCK_TYPES.includes(dst.type) && FLOAT_TYPES.includes(a.type);
  },
  dispatches: (node) => [dispatch(node)],
};

function dispatch(node: ProgramNode): Dispatch {
  const [dst, a] = [node.tensor, node.src[0]!];
  if (a.type === dst.type) return move(node, a);
  if (isQuantized(dst.type)) return quantise(node, a);
  return isQuantized(a.type) ? dequantise(node, a) : convert(node, a);
}

function binds(atomic: boolean): Bind[] {
  return [
    { name: "dst", of: "dst", access: "write", atomic },
    { name: "a", of: 0, access: "read" },
  ];
}

// Indices j0 .. j3 of the source's element `index`: those of the result's, or counted anew where shapes differ.
function sourceIndices(same: boolean, index = "i"): string {
  if (!same) return unravel("j", index, "a");
  return "let j0 = i0; let j1 = i1; let j2 = i2; let j3 = i3;";
}

const SOURCE = ["j0", "j1", "j2", "j3"];

function move(node: ProgramNode, a: Tensor): Dispatch {
  const [to, from] = [unitsOf(node.tensor), unitsOf(a)];
  const same = sameShape(to.ne, from.ne);
  return eachElement(node, {
    label: `copy ${to.size}${same ? "" : " reshaped"}`,
    bind: binds(to.size < 4),
    params: [...unitParams("dst", to), ...unitParams("a", from)],
    body: `${sourceIndices(same)}
  ${moveUnit(to.size, address("dst"), "a", address("a", SOURCE))}`,
    ne: to.ne,
  });
}

function convert(node: ProgramNode, a: Tensor): Dispatch {
  const dst = node.tensor;
  const same = sameShape(dst.ne, a.ne);
  return eachElement(node, {
    label: `copy ${typeName(a.type)} ${typeName(dst.type)}${same ? "" : " reshaped"}`,
    bind: binds(needsAtomic(dst.type)),
    params: [...nbParams("dst", dst), ...neParams("a", a), ...nbParams("a", a)],
    functions: convertSource(dst.type),
    body: `${sourceIndices(same)}
  ${convertElement(a.type, dst.type, address("dst"), "a", address("a", SOURCE))}`,
  });
}

function blocksOf({ ne, type }: Tensor): Shape {
  return [ne[0] / typeInfo(type)!.blockSize, ne[1], ne[2], ne[3]];
}

// An invocation for each block of the result.
function quantise(node: ProgramNode, a: Tensor): Dispatch {
  const dst = node.tensor;
  return eachElement(node, {
    label: `copy ${typeName(a.type)} ${typeName(dst.type)}`,
    bind: binds(needsAtomic(dst.type)),
    params: [...nbParams("dst", dst), ...neParams("a", a), ...nbParams("a", a)],
    functions: blockSource("dst", dst.type),
    body: `
  for (var k = 0u; k < 32u; k++) {
    ${unravel("j", "(i * 32u + k)", "a")}
    X[k] = ${loadFloat("a", a.type, address("a", SOURCE))};
  }
  dst_block(${address("dst")});`,
    ne: blocksOf(dst),
  });
}

// An invocation for four elements of the result, or for one where its rows are no multiple of four.
function dequantise(node: ProgramNode, a: Tensor): Dispatch {
  const dst = node.tensor;
  const four = dst.ne[0] % 4 === 0;
  const per = four ? 4 : 1;
  const params = [...nbParams("dst", dst), ...neParams("a", a), ...nbParams("a", a)];
  return eachElement(node, {
    label: `copy ${typeName(a.type)} F32 by ${per}`,
    bind: binds(false),
    params,
    functions: `${QUAD_LIB}${quadSource("a", a.type)}`,
    body: `
  ${unravel("j", `(i * ${per}u)`, "a")}
  let v = a_quad(j1 * P.a_nb1 + j2 * P.a_nb2 + j3 * P.a_nb3, j0 / 4u);
  ${four ? storeFour(address("dst", ["(4u * i0)", "i1", "i2", "i3"])) : `dst_set_f32(${address("dst")}, v[j0 % 4u]);`}`,
    ne: [dst.ne[0] / per, dst.ne[1], dst.ne[2], dst.ne[3]],
  });
}

/** Statements: four f32 `v` to dst, one after the other from byte `to` on. */
export function storeFour(to: string): string {
  return `let to = ${to}; ${[0, 1, 2, 3].map((k) => `dst_set_f32(to + ${4 * k}u, v[${k}]);`).join(" ")}`;
}
