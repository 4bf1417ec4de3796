// MUL_MAT with many columns: tiles of TILE x TILE results, TILE elements of k at a time through workgroup memory.
//
//   A [TILE rows][8 quads], B [TILE columns][8 quads]; 8 x 8 invocations, each 4 x 4 results

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { typeInfo } from "../../types.ts";
import { type Caps, type Dispatch, u32 } from "../kernel.ts";
import { loadFloat } from "../wgsl/float.ts";
import {
  hasTail,
  LIVE_COLUMNS,
  operandKey,
  operandSource,
  type Part,
  productBinds,
  productParams,
  storeElement,
} from "./product.ts";

/** Rows and columns of a tile. */
export const TILE = 32;
/** Invocations of a workgroup. */
export const TILE_LANES = 64;

/** The rows of a part times all columns. */
export function tileDispatch(node: ProgramNode, _caps: Caps, part: Part): Dispatch {
  const [a, b] = [node.src[0]!, node.src[1]!];
  const live = node.src[SRC_LIVE] !== undefined;
  const summed = node.src[2] !== undefined;
  const label = `mul_mat ${operandKey(a, b)} tile${summed ? " add" : ""}`;
  const down = Math.ceil((part.last - part.first) / TILE);
  const along = Math.ceil(b.ne[1] / TILE);
  return {
    label,
    key: `${label}${hasTail(a) ? " tail" : ""}${live ? " live" : ""}`,
    source: () => source(a, b, live, summed),
    bind: productBinds(node, part),
    params: [...productParams(node, part), u32("down", down), u32("along", along)],
    groups: down * along * b.ne[2] * b.ne[3],
    workgroup: TILE_LANES,
  };
}

/** Where the columns of a tile lie. */
export interface TileColumns {
  /** expression: byte of column `r` of the tile */
  readonly at: string;
  /** condition: there is a column `r` */
  readonly is: string;
}

/** What {@link tileSums} needs around `main`. */
export function tileSource(a: Tensor, b: Tensor): string {
  return `
${operandSource(a, b)}
var<workgroup> A: array<vec4f, ${TILE * 8}>;
var<workgroup> B: array<vec4f, ${TILE * 8}>;
${hasTail(a) ? tailSource("a", a) + tailSource("b", b) : ""}`;
}

/**
 * Statements: `acc[j][i]` is the product of row m0 + 4 lx + i of the matrix at byte `at` and column 4 ly + j of the tile,
 * lx and ly being the place of the invocation. Everything that decides whether they run must be uniform.
 */
export function tileSums(a: Tensor, columns: TileColumns): string {
  return `let lx = local % 8u; let ly = local / 8u;
  var acc: array<vec4f, 4>;
  for (var q0 = 0u; q0 < (P.k + 3u) / 4u; q0 += 8u) {
    for (var i = local; i < ${TILE * 8}u; i += ${TILE_LANES}u) {
      let r = i / 8u; let q = q0 + i % 8u;
      var u = vec4f(); var v = vec4f();
      if (q < P.k / 4u) {
        if (m0 + r < P.rows) { u = a_quad(at + (m0 + r) * P.a_nb1, q); }
        if (${columns.is}) { v = b_quad(${columns.at}, q); }
      }
      ${hasTail(a) ? tailLoad(columns) : ""}
      A[i] = u; B[i] = v;
    }
    workgroupBarrier();
    for (var e = 0u; e < 8u; e++) {
      let a0 = A[lx * 32u + e]; let a1 = A[lx * 32u + 8u + e];
      let a2 = A[lx * 32u + 16u + e]; let a3 = A[lx * 32u + 24u + e];
      for (var j = 0u; j < 4u; j++) {
        let x = B[(ly * 4u + j) * 8u + e];
        acc[j] += vec4f(dot(a0, x), dot(a1, x), dot(a2, x), dot(a3, x));
      }
    }
    workgroupBarrier();
  }`;
}

function source(a: Tensor, b: Tensor, live: boolean, summed: boolean): string {
  const columns = { at: "bt + (n0 + r) * P.b_nb1", is: "n0 + r < columns" };
  return `${tileSource(a, b)}${live ? `${LIVE_COLUMNS}var<workgroup> LIVE: u32;` : ""}
fn main(group: u32, local: u32) {
  let m0 = group % P.down * ${TILE}u;
  let rest = group / P.down;
  let n0 = rest % P.along * ${TILE}u;
  let plane = rest / P.along;
  let i2 = plane % P.n2; let i3 = plane / P.n2;
  ${live ? "if (local == 0u) { LIVE = columns_of(i2, i3); } let columns = workgroupUniformLoad(&LIVE);" : "let columns = P.columns;"}
  if (n0 >= columns) { return; }
  let at = i2 / P.r2 * P.a_nb2 + i3 / P.r3 * P.a_nb3;
  let bt = i2 * P.b_nb2 + i3 * P.b_nb3;
  ${tileSums(a, columns)}
  for (var j = 0u; j < 4u; j++) {
    let n = n0 + ly * 4u + j;
    if (n >= columns) { continue; }
    let to = i2 * P.dst_nb2 + i3 * P.dst_nb3 + n * P.dst_nb1 + 4u * P.first;
    for (var i = 0u; i < 4u; i++) {
      let m = m0 + lx * 4u + i;
      if (m < P.rows) { ${storeElement(summed, "m", "n", "to + 4u * m", "acc[j][i]")} }
    }
  }
}
`;
}

function tailLoad({ at, is }: TileColumns): string {
  return `else if (q == P.k / 4u) {
        if (m0 + r < P.rows) { u = a_tail(at + (m0 + r) * P.a_nb1); }
        if (${is}) { v = b_tail(${at}); }
      }`;
}

// The elements behind the last whole quad of a row, and zeros.
function tailSource(name: string, x: Tensor): string {
  const { typeSize } = typeInfo(x.type)!;
  return `
fn ${name}_tail(row: u32) -> vec4f {
  var v = vec4f();
  let first = P.k / 4u * 4u;
  for (var i = first; i < P.k; i++) { v[i - first] = ${loadFloat(name, x.type, `row + i * ${typeSize}u`)}; }
  return v;
}
`;
}
