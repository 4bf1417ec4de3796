// SET_ROWS: rows of src0 into the rows of src2 that src1 names; the result is a view of src2. An id outside it ends in an error, and
// nothing is written.
//
// A workgroup takes one row. Where an id occurs again behind it in the same plane, the later row wins: the workgroup
// looks for that first and leaves.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { isQuantized, Type, typeInfo, typeName } from "../../types.ts";
import { type Dispatch, FAULT, type GpuKernel, nbParams, neParams, u32 } from "../kernel.ts";
import { address } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat, roundSource, storeFloat } from "../wgsl/float.ts";
import { BLOCK_TYPES, blockSource } from "../wgsl/quantize.ts";
import { isReadable, rowsAligned } from "../wgsl/quants.ts";
import { eachRow } from "../wgsl/rows.ts";

export const setRowsKernel: GpuKernel = {
  supports({ tensor, src }): boolean {
    const known = FLOAT_TYPES.includes(tensor.type) || BLOCK_TYPES.includes(tensor.type);
    return known && FLOAT_TYPES.includes(src[0]!.type) && [tensor, src[0]!, src[1]!].every(isReadable);
  },
  dispatches: (node) => [dispatch(node)],
};

function dispatch(node: ProgramNode): Dispatch {
  const dst = node.tensor;
  const [x, ids] = [node.src[0]!, node.src[1]!];
  const live = node.src[SRC_LIVE] !== undefined;
  const whole = ownsWords(dst);
  const wide = ids.type === Type.I64;
  return eachRow(node, {
    label: `set_rows ${typeName(x.type)} ${typeName(dst.type)}${wide ? " I64" : ""}${whole ? "" : " parts"}`,
    bind: [
      { name: "dst", of: "dst", access: "write", atomic: !whole },
      { name: "x", of: 0, access: "read" },
      { name: "ids", of: 1, access: "read" },
      FAULT,
    ],
    params: [
      ...nbParams("dst", dst),
      ...nbParams("x", x),
      ...neParams("ids", ids),
      ...nbParams("ids", ids),
      u32("rows", dst.ne[1]),
    ],
    functions: `
var<workgroup> LATER: atomic<u32>;
// row number, or one past any
fn id_at(at: u32) -> u32 { ${wide ? "if (ids_u32(at + 4u) != 0u) { return 0xffffffffu; }" : ""} return ids_u32(at); }
${isQuantized(dst.type) ? blockSource("dst", dst.type) : roundSource(dst.type)}`,
    body: `
  let plane_ids = i2 % P.ids_ne1 * P.ids_nb1 + i3 % P.ids_ne2 * P.ids_nb2;
  let id = id_at(plane_ids + i1 * P.ids_nb0);
  ${live ? "let count = select(P.n1, min(P.n1, ROWS), P.n2 * P.n3 == 1u);" : "let count = P.n1;"}
  for (var j = i1 + 1u + local; j < count; j += LANES) {
    if (id_at(plane_ids + j * P.ids_nb0) == id) { atomicStore(&LATER, 1u); }
  }
  workgroupBarrier();
  if (id >= P.rows && local == 0u) { fault_report(id); }
  if (atomicLoad(&LATER) != 0u || id >= P.rows) { return; }
  let at = ${address("x", ["0u", "i1", "i2", "i3"])};
  let to = id * P.dst_nb1 + i2 * P.dst_nb2 + i3 * P.dst_nb3;
  ${isQuantized(dst.type) ? blocks(x, dst, whole) : floats(x, dst, whole)}`,
    ne: x.ne,
    lanes: 64,
    mergeable: true,
  });
}

// True where invocations can take whole words: two elements of 16 bits, or two blocks of an odd number of halves.
function ownsWords(dst: Tensor): boolean {
  const { blockSize, typeSize } = typeInfo(dst.type)!;
  if (typeSize % 4 === 0) return true;
  return typeSize % 2 === 0 && (dst.ne[0] / blockSize) % 2 === 0 && rowsAligned(dst, 4);
}

function floats(x: Tensor, dst: Tensor, whole: boolean): string {
  const size = typeInfo(x.type)!.typeSize;
  const load = (i: string): string => loadFloat("x", x.type, `at + ${i} * ${size}u`);
  if (dst.type === Type.F32 || !whole) {
    const place = `to + i * ${typeInfo(dst.type)!.typeSize}u`;
    return `for (var i = local; i < P.n0; i += LANES) { let v = ${load("i")}; ${storeFloat("dst", dst.type, place, "v")} }`;
  }
  const round = dst.type === Type.F16 ? "round_f16" : "round_bf16";
  return `for (var i = local; i < P.n0 / 2u; i += LANES) {
    dst_set_u32(to + 4u * i, ${round}(${load("(2u * i)")}) | (${round}(${load("(2u * i + 1u)")}) << 16u));
  }`;
}

function blocks(x: Tensor, dst: Tensor, whole: boolean): string {
  const { typeSize } = typeInfo(dst.type)!;
  const each = whole && typeSize % 4 !== 0 ? 2 : 1;
  return `for (var i = local * ${each}u; i < P.n0 / 32u; i += LANES * ${each}u) {
    for (var k = 0u; k < ${each}u; k++) {
      for (var j = 0u; j < 32u; j++) { X[j] = ${loadFloat("x", x.type, `at + ((i + k) * 32u + j) * ${typeInfo(x.type)!.typeSize}u`)}; }
      dst_block(to + (i + k) * ${typeSize}u);
    }
  }`;
}
