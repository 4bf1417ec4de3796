// MUL_MAT with many columns: tiles of size x size results, 32 elements of k at a time through workgroup memory.
//
//   A [8 quads][size rows], B [8 quads][size columns], one element more a quad; each invocation 4 x 4 results, whose rows
//   and columns are size / 4 apart: neighbours read neighbouring memory and store neighbouring results
//
// Large tiles unpack each weight half as often. In f16 those of A take half the memory, so that large ones fit into the
// 16 KiB that every device has. F16 weights lie there as they are, blocks in units of their scale, a power of two
// (unitSource): rounded to 11 bits, whatever their size. Activations and sums are F32.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { Type, typeInfo } from "../../types.ts";
import { type Caps, type Dispatch, u32 } from "../kernel.ts";
import { loadFloat } from "../wgsl/float.ts";
import { hasUnit, unitSource } from "../wgsl/quants.ts";
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

/** Tiles of a kernel. */
export interface Tile {
  /** rows and columns: 32 or 64 */
  readonly size: number;
  /** weights lie in f16 */
  readonly f16: boolean;
}

const SMALL = 32;
const LARGE = 64;
/** Columns from which there are enough large tiles to keep a device busy. */
const LARGE_COLUMNS = 97;
/** Workgroup memory of a device that runs two workgroups of large tiles in F32 at a time. */
const ROOMY = 32768;

/** The tiles for so many rows of `a` and columns. */
export function tileOf(a: Tensor, rows: number, columns: number, caps: Caps): Tile {
  const filled = Math.ceil(rows / LARGE) * LARGE <= 1.25 * Math.ceil(rows / SMALL) * SMALL;
  const large = filled && columns >= LARGE_COLUMNS;
  const f16 = caps.f16 && (a.type === Type.F16 || hasUnit(a.type));
  return { size: large && (f16 || caps.maxWorkgroupBytes >= ROOMY) ? LARGE : SMALL, f16 };
}

/** What a label says of tiles. */
export function tileKey({ size, f16 }: Tile): string {
  return `tile${size}${f16 ? " f16" : ""}`;
}

/** Workgroup and extensions of a kernel of tiles. */
export function tileGroup({ size, f16 }: Tile): Pick<Dispatch, "workgroup" | "enable"> {
  return { workgroup: (size / 4) ** 2, ...(f16 ? { enable: ["f16"] } : {}) };
}

/** The rows of a part times all columns. */
export function tileDispatch(node: ProgramNode, caps: Caps, part: Part): Dispatch {
  const [a, b] = [node.src[0]!, node.src[1]!];
  const live = node.src[SRC_LIVE] !== undefined;
  const summed = node.src[2] !== undefined;
  const rows = part.last - part.first;
  const tile = tileOf(a, rows, b.ne[1], caps);
  const label = `mul_mat ${operandKey(a, b)} ${tileKey(tile)}${summed ? " add" : ""}`;
  const down = Math.ceil(rows / tile.size);
  const along = Math.ceil(b.ne[1] / tile.size);
  return {
    label,
    key: `${label}${hasTail(a) ? " tail" : ""}${live ? " live" : ""}`,
    source: () => source({ a, b, tile }, live, summed),
    bind: productBinds(node, part),
    params: [...productParams(node, part), u32("down", down), u32("along", along)],
    groups: down * along * b.ne[2] * b.ne[3],
    ...tileGroup(tile),
  };
}

/** Operands of a kernel and its tiles. */
export interface Tiled {
  readonly a: Tensor;
  readonly b: Tensor;
  readonly tile: Tile;
}

/** Where the columns of a tile lie. */
export interface TileColumns {
  /** expression: byte of column `r` of the tile */
  readonly at: string;
  /** condition: there is a column `r` */
  readonly is: string;
}

/** What {@link tileSums} needs around `main`. */
export function tileSource({ a, b, tile: { size, f16 } }: Tiled): string {
  const units = f16 && hasUnit(a.type);
  return `
${operandSource(a, b)}
var<workgroup> A: array<${f16 ? "vec4<f16>" : "vec4f"}, ${8 * (size + 1)}>;
var<workgroup> B: array<vec4f, ${8 * (size + 1)}>;
${units ? `var<workgroup> UNITS: array<f32, ${size}>;${unitSource("a", a.type)}` : ""}
${hasTail(a) ? tailSource("a", a) + tailSource("b", b) : ""}`;
}

/**
 * Statements: `acc[j][i]` is the product of row m0 + lx + i size / 4 of the matrix at byte `at` and column ly + j size / 4
 * of the tile, lx and ly being the place of the invocation. Everything that decides whether they run must be uniform.
 */
export function tileSums({ a, tile: { size, f16 } }: Tiled, columns: TileColumns): string {
  const [across, stride] = [size / 4, size + 1];
  const units = f16 && hasUnit(a.type);
  const rows = [0, across, 2 * across, 3 * across];
  const sums = units ? "part" : "acc";
  return `let lx = local % ${across}u; let ly = local / ${across}u;
  var acc = array<vec4f, 4>();
  for (var q0 = 0u; q0 < (P.k + 3u) / 4u; q0 += 8u) {
    for (var i = local; i < ${size * 8}u; i += ${across ** 2}u) {
      let r = i / 8u; let q = q0 + i % 8u; let row = at + (m0 + r) * P.a_nb1;
      var u = vec4f(); var v = vec4f();
      if (q < P.k / 4u) {
        if (m0 + r < P.rows) { u = a_quad(row, q); ${units ? toUnits : ""} }
        if (${columns.is}) { v = b_quad(${columns.at}, q); }
      }
      ${hasTail(a) ? tailLoad(columns) : ""}
      let to = i % 8u * ${stride}u + r;
      A[to] = ${f16 ? "vec4<f16>(u)" : "u"}; B[to] = v;
    }
    workgroupBarrier();
    ${units ? "var part = array<vec4f, 4>();" : ""}
    for (var e = 0u; e < 8u; e++) {
      let x = e * ${stride}u + lx; let y = e * ${stride}u + ly;
      ${rows.map((r, i) => `let a${i} = vec4f(A[x + ${r}u]);`).join(" ")}
      for (var j = 0u; j < 4u; j++) {
        let b = B[y + j * ${across}u];
        ${sums}[j] += vec4f(dot(a0, b), dot(a1, b), dot(a2, b), dot(a3, b));
      }
    }
    ${units ? fromUnits(rows) : ""}
    workgroupBarrier();
  }`;
}

// 32 elements of k lie in one block, so a row has one unit at a time. What is declared in a loop is given its zeros by
// name: naga leaves it as the last turn left it.
const toUnits = `
          let unit = a_unit(row, q);
          u *= bitcast<f32>((254u - unit) << 23u);
          if (i % 8u == 0u) { UNITS[r] = bitcast<f32>(unit << 23u); }`;

function fromUnits(rows: readonly number[]): string {
  return `let units = vec4f(${rows.map((r) => `UNITS[lx + ${r}u]`).join(", ")});
    for (var j = 0u; j < 4u; j++) { acc[j] += units * part[j]; }`;
}

function source(tiled: Tiled, live: boolean, summed: boolean): string {
  const columns = { at: "bt + (n0 + r) * P.b_nb1", is: "n0 + r < columns" };
  const { size } = tiled.tile;
  return `${tileSource(tiled)}${live ? `${LIVE_COLUMNS}var<workgroup> LIVE: u32;` : ""}
fn main(group: u32, local: u32) {
  let m0 = group % P.down * ${size}u;
  let rest = group / P.down;
  let n0 = rest % P.along * ${size}u;
  let plane = rest / P.along;
  let i2 = plane % P.n2; let i3 = plane / P.n2;
  ${live ? "if (local == 0u) { LIVE = columns_of(i2, i3); } let columns = workgroupUniformLoad(&LIVE);" : "let columns = P.columns;"}
  if (n0 >= columns) { return; }
  let at = i2 / P.r2 * P.a_nb2 + i3 / P.r3 * P.a_nb3;
  let bt = i2 * P.b_nb2 + i3 * P.b_nb3;
  ${tileSums(tiled, columns)}
  for (var j = 0u; j < 4u; j++) {
    let n = n0 + ly + j * ${size / 4}u;
    if (n >= columns) { continue; }
    let to = i2 * P.dst_nb2 + i3 * P.dst_nb3 + n * P.dst_nb1 + 4u * P.first;
    for (var i = 0u; i < 4u; i++) {
      let m = m0 + lx + i * ${size / 4}u;
      if (m < P.rows) { ${storeElement(summed, "m", "n", "to + 4u * m", "acc[j][i]")} }
    }
  }
}
`;
}

function tailLoad({ at, is }: TileColumns): string {
  return `else if (q == P.k / 4u) {
        if (m0 + r < P.rows) { u = a_tail(row); }
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
