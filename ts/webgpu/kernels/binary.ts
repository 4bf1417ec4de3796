// ADD SUB MUL DIV: src1 is repeated over src0; float types, mixed.

import type { ProgramNode } from "../../graph/program.ts";
import { nelements } from "../../shape.ts";
import { type Type, typeName } from "../../types.ts";
import { type Dispatch, type GpuKernel, nbParams, neParams, u32 } from "../kernel.ts";
import { FLOAT_TYPES, loadFloat, roundSource, storeFloat } from "../wgsl/float.ts";

const WORKGROUP = 64;

/** Kernel of a binary operator of WGSL. */
export function binaryKernel(operator: string): GpuKernel {
  return {
    supports: ({ tensor, src }) => [tensor, src[0]!, src[1]!].every((t) => FLOAT_TYPES.includes(t.type)),
    dispatches: (node) => [dispatch(operator, node)],
  };
}

function dispatch(operator: string, { tensor: dst, src }: ProgramNode): Dispatch {
  const a = src[0]!;
  const b = src[1]!;
  const types = [dst, a, b].map((t) => typeName(t.type)).join(" ");
  const n = nelements(dst.ne);
  return {
    label: `binary ${operator} ${types}`,
    key: `binary ${operator} ${types}`,
    source: () => source(operator, dst.type, a.type, b.type),
    bind: [
      { name: "dst", of: "dst", access: "write", atomic: dst.nb[0] < 4 },
      { name: "a", of: 0, access: "read" },
      { name: "b", of: 1, access: "read" },
    ],
    params: [
      u32("n", n),
      ...neParams("dst", dst),
      ...nbParams("dst", dst),
      ...nbParams("a", a),
      ...neParams("b", b),
      ...nbParams("b", b),
    ],
    groups: Math.ceil(n / WORKGROUP),
    workgroup: WORKGROUP,
  };
}

function source(operator: string, dst: Type, a: Type, b: Type): string {
  return `
${roundSource(dst)}
fn main(group: u32, local: u32) {
  let i = group * ${WORKGROUP}u + local;
  if (i >= P.n) { return; }
  let i0 = i % P.dst_ne0;
  let row = i / P.dst_ne0;
  let i1 = row % P.dst_ne1;
  let i2 = row / P.dst_ne1 % P.dst_ne2;
  let i3 = row / P.dst_ne1 / P.dst_ne2;
  let at = i0 * P.a_nb0 + i1 * P.a_nb1 + i2 * P.a_nb2 + i3 * P.a_nb3;
  let bt = i0 % P.b_ne0 * P.b_nb0 + i1 % P.b_ne1 * P.b_nb1 + i2 % P.b_ne2 * P.b_nb2 + i3 % P.b_ne3 * P.b_nb3;
  let to = i0 * P.dst_nb0 + i1 * P.dst_nb1 + i2 * P.dst_nb2 + i3 * P.dst_nb3;
  let y = ${loadFloat("a", a, "at")} ${operator} ${loadFloat("b", b, "bt")};
  ${storeFloat("dst", dst, "to", "y")}
}
`;
}
