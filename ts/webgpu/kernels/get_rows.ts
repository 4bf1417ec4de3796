// GET_ROWS: rows of a table by index. An id outside the table ends in an error; its row is all NaN.
//
// A table larger than a binding is read through windows: each dispatch fetches the rows that lie in its own.

import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { rowBytes, type Shape } from "../../shape.ts";
import { isQuantized, typeInfo, typeName } from "../../types.ts";
import { type Caps, type Dispatch, FAULT, type GpuKernel, nbParams, u32 } from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat } from "../wgsl/float.ts";
import { isReadable, QUAD_LIB, QUAD_TYPES, quadSource } from "../wgsl/quants.ts";
import { storeFour } from "./copy.ts";
import { type Part, windowed } from "./product.ts";

export const getRowsKernel: GpuKernel = {
  supports({ tensor, src }, caps): boolean {
    const [table, ids] = [src[0]!, src[1]!];
    const known = typeInfo(table.type)!.typeSize === 4 || QUAD_TYPES.includes(table.type);
    const fits = rowBytes(table.type, table.ne[0]) <= caps.maxBinding && windowed(table, caps) !== undefined;
    return known && fits && [tensor, table, ids].every(isReadable);
  },
  dispatches: (node, caps: Caps) => windowed(node.src[0]!, caps)!.map((part) => dispatch(node, part)),
};

function dispatch(node: ProgramNode, part: Part): Dispatch {
  const dst = node.tensor;
  const [table, ids] = [node.src[0]!, node.src[1]!];
  const blocks = isQuantized(table.type);
  const ne: Shape = blocks ? [dst.ne[0] / 4, dst.ne[1], dst.ne[2], dst.ne[3]] : dst.ne;
  const window = part.bytes === undefined ? {} : { offset: part.offset, bytes: part.bytes };
  return eachElement(node, {
    label: `get_rows ${typeName(table.type)}`,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "table", of: 0, access: "read", ...window },
      { name: "ids", of: 1, access: "read" },
      FAULT,
    ],
    params: [
      ...nbParams("dst", dst),
      ...nbParams("table", table),
      ...nbParams("ids", ids),
      u32("rows", table.ne[1]),
      u32("first", part.first),
      u32("last", part.last),
    ],
    functions: blocks ? `${QUAD_LIB}${quadSource("table", table.type)}` : "",
    body: `
  let id = ids_u32(${address("ids", ["i1", "i2", "i3", "0u"])});
  if (id >= P.rows) {
    fault_report(id);
    ${lost(blocks)}
    return;
  }
  if (id < P.first || id >= P.last) { return; }
  let row = (id - P.first) * P.table_nb1 + i2 * P.table_nb2 + i3 * P.table_nb3;
  ${blocks ? `let v = table_quad(row, i0); ${storeFour(address("dst", QUAD))}` : element(table)}`,
    ne,
  });
}

const QUAD = ["(4u * i0)", "i1", "i2", "i3"];

function lost(blocks: boolean): string {
  if (!blocks) return `dst_set_u32(${address("dst")}, 0x7fffffffu);`;
  return `for (var k = 0u; k < 4u; k++) { dst_set_u32(${address("dst", QUAD)} + 4u * k, 0x7fffffffu); }`;
}

function element({ type }: Tensor): string {
  const at = "row + i0 * P.table_nb0";
  if (!FLOAT_TYPES.includes(type)) return `dst_set_u32(${address("dst")}, table_u32(${at}));`;
  return `dst_set_f32(${address("dst")}, ${loadFloat("table", type, at)});`;
}
