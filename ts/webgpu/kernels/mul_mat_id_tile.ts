// MUL_MAT_ID with many columns for each matrix: columns are sorted by their ids first, then each tile takes columns of
// one matrix, whose elements are unpacked once for all of them.
//
//   scratch, words   tiles | tile: matrix, first in the list, columns | .. | list: numbers of columns, matrix by matrix
//
// Ids outside the table count as one more matrix, whose results are NaN. The order of a matrix's columns in the list may
// differ from run to run; no result depends on it.

import { SRC_LIVE } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { type Bind, type Caps, type Dispatch, FAULT, nbParams, type RowWindow, u32 } from "../kernel.ts";
import { type Tile, type Tiled, tileGroup, tileKey, tileOf, tileSource, tileSums } from "./mul_mat_tile.ts";
import { hasTail, operandKey } from "./product.ts";

/** Columns per matrix from which unpacking once pays for tiles that are not full. */
const COLUMNS_EACH = 8;
/** A counter each in workgroup memory. */
const MOST_MATRICES = 2048;
const SORT_LANES = 256;

const columnsOf = ({ tensor: { ne } }: ProgramNode): number => ne[1] * ne[2];
const matricesOf = ({ src }: ProgramNode): number => src[0]!.ne[2];

// Tiles for the columns that each matrix has on average.
function tileFor(node: ProgramNode, caps: Caps): Tile {
  const a = node.src[0]!;
  return tileOf(a, a.ne[1], columnsOf(node) / matricesOf(node), caps);
}

// Each matrix, and what is outside, may leave one tile unfilled.
function mostTiles(node: ProgramNode, { size }: Tile): number {
  const columns = columnsOf(node);
  return Math.min(columns, Math.floor(columns / size) + matricesOf(node) + 1);
}

const listAt = (node: ProgramNode, tile: Tile): number => 4 + 12 * mostTiles(node, tile);
const tableBytes = (node: ProgramNode, tile: Tile): number => listAt(node, tile) + 4 * columnsOf(node);

/** True where tiles are worth sorting for. */
export function isTiled(node: ProgramNode): boolean {
  const matrices = matricesOf(node);
  return matrices < MOST_MATRICES && columnsOf(node) >= COLUMNS_EACH * matrices;
}

/** Bytes of the tiles and the list. */
export function tileScratch(node: ProgramNode, caps: Caps): number {
  return tableBytes(node, tileFor(node, caps));
}

/** Sorting, then the tiles of each window of matrices. */
export function tileDispatches(node: ProgramNode, caps: Caps, windows: readonly RowWindow[]): Dispatch[] {
  const tile = tileFor(node, caps);
  return [sort(node, tile), ...windows.map((w) => tiles(node, tile, w))];
}

const TABLE: Bind = { name: "table", of: "scratch", access: "write" };

function sort(node: ProgramNode, tile: Tile): Dispatch {
  const ids = node.src[2]!;
  const live = node.src[SRC_LIVE] !== undefined;
  const slots = matricesOf(node) + 1;
  const label = `mul_mat_id sort ${slots} by ${tile.size}`;
  return {
    label,
    key: `${label}${live ? " live" : ""}`,
    source: () => sortSource(slots, tile.size, live),
    bind: [
      { ...TABLE, bytes: tableBytes(node, tile) },
      { name: "ids", of: 2, access: "read" },
      FAULT,
      ...(live ? [{ name: "live", of: SRC_LIVE, access: "read" } as const] : []),
    ],
    params: [
      u32("count", slots - 1),
      u32("n", node.tensor.ne[1]),
      u32("tokens", node.tensor.ne[2]),
      u32("list", listAt(node, tile)),
      ...nbParams("ids", ids),
    ],
    groups: 1,
    workgroup: SORT_LANES,
  };
}

function sortSource(slots: number, size: number, live: boolean): string {
  const tokens = live ? "min(P.tokens, u32(max(0, live_i32(0u))))" : "P.tokens";
  return `
// columns of each matrix, then where its next one goes
var<workgroup> COUNT: array<atomic<u32>, ${slots}>;
fn id_of(c: u32) -> u32 { return ids_u32(c % P.n * P.ids_nb0 + c / P.n * P.ids_nb1); }
fn main(group: u32, local: u32) {
  let columns = P.n * ${tokens};
  for (var c = local; c < columns; c += ${SORT_LANES}u) {
    let id = id_of(c);
    if (id >= P.count) { fault_report(id); }
    atomicAdd(&COUNT[min(id, P.count)], 1u);
  }
  workgroupBarrier();
  if (local == 0u) {
    var tiles = 0u; var first = 0u;
    for (var x = 0u; x < ${slots}u; x++) {
      let n = atomicLoad(&COUNT[x]);
      for (var j = 0u; j < n; j += ${size}u) {
        let at = 4u + 12u * tiles;
        table_set_u32(at, x); table_set_u32(at + 4u, first + j); table_set_u32(at + 8u, min(n - j, ${size}u));
        tiles++;
      }
      atomicStore(&COUNT[x], first);
      first += n;
    }
    table_set_u32(0u, tiles);
  }
  workgroupBarrier();
  for (var c = local; c < columns; c += ${SORT_LANES}u) {
    table_set_u32(P.list + 4u * atomicAdd(&COUNT[min(id_of(c), P.count)], 1u), c);
  }
}
`;
}

function tiles(node: ProgramNode, tile: Tile, { first, last, offset, bytes }: RowWindow): Dispatch {
  const dst = node.tensor;
  const [a, b] = [node.src[0]!, node.src[1]!];
  const label = `mul_mat_id ${operandKey(a, b)} ${tileKey(tile)}`;
  const down = Math.ceil(a.ne[1] / tile.size);
  return {
    label,
    key: `${label}${hasTail(a) ? " tail" : ""}`,
    source: () => source({ a, b, tile }),
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read", offset, bytes },
      { name: "b", of: 1, access: "read" },
      { ...TABLE, bytes: tableBytes(node, tile), access: "read" },
    ],
    params: [
      u32("k", a.ne[0]),
      u32("rows", a.ne[1]),
      u32("count", a.ne[2]),
      u32("first", first),
      u32("last", last),
      u32("down", down),
      u32("n", dst.ne[1]),
      u32("b_ne1", b.ne[1]),
      u32("list", listAt(node, tile)),
      ...nbParams("a", a),
      ...nbParams("b", b),
      ...nbParams("dst", dst),
    ],
    groups: down * mostTiles(node, tile),
    ...tileGroup(tile),
  };
}

// What a tile is about is read through one invocation, which makes it uniform.
function source(tiled: Tiled): string {
  const { size } = tiled.tile;
  return `${tileSource(tiled)}
// matrix, first in the list, columns; none when there is no such tile
var<workgroup> HEAD: vec3u;
var<workgroup> FROM: array<u32, ${size}>;
var<workgroup> TO: array<u32, ${size}>;
var<private> NAN: u32 = 0x7fc00000u;
fn head_of(tile: u32) -> vec3u {
  if (tile >= table_u32(0u)) { return vec3u(); }
  let at = 4u + 12u * tile;
  return vec3u(table_u32(at), table_u32(at + 4u), table_u32(at + 8u));
}
fn main(group: u32, local: u32) {
  let m0 = group % P.down * ${size}u;
  if (local == 0u) { HEAD = head_of(group / P.down); }
  let head = workgroupUniformLoad(&HEAD);
  let lost = head.x == P.count;
  if (head.z == 0u || (!lost && (head.x < P.first || head.x >= P.last))) { return; }
  if (local < head.z) {
    let c = table_u32(P.list + 4u * (head.y + local));
    let i = c % P.n; let t = c / P.n;
    FROM[local] = i % P.b_ne1 * P.b_nb1 + t * P.b_nb2;
    TO[local] = i * P.dst_nb1 + t * P.dst_nb2;
  }
  workgroupBarrier();
  let at = select(head.x - P.first, 0u, lost) * P.a_nb2;
  ${tileSums(tiled, { at: "FROM[r]", is: "r < head.z" })}
  for (var j = 0u; j < 4u; j++) {
    let n = ly + j * ${size / 4}u;
    if (n >= head.z) { continue; }
    for (var i = 0u; i < 4u; i++) {
      let m = m0 + lx + i * ${size / 4}u;
      if (m < P.rows) { dst_set_f32(TO[n] + 4u * m, select(acc[j][i], bitcast<f32>(NAN), lost)); }
    }
  }
}
`;
}
