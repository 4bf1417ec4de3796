// Rows of blocks of any size, in file order or in quads, times one column: what a matrix takes of all that there is.

import { Flag } from "../abi";
import { Node } from "../node";
import { blockSize } from "../quants/index";
import { PAIR_ROWS } from "../quants/quad";
import { hasTable } from "../quants/quad_types";
import { dotRows } from "./blocks";
import { columnBytes, expandColumn } from "./columns";
import { LEVEL_SUMS } from "./quad_tables";
import { dotQuads } from "./quads";
import { columnFor, columnZero } from "./spread";
import { dotSuperRows, expandSuper, hasSignedCodes, superColumnBytes } from "./super";
import { dotSuperQuads, quadSums } from "./super_quads";

/** Rows of weights in quads (quants/quads.ts)? */
@inline
export function inQuads(a: Node): bool {
  return (a.flags & Flag.QUADS) != 0;
}

/** Super-blocks, or blocks of 32? */
@inline
export function hasSupers(a: Node): bool {
  return blockSize(a.type) == 256;
}

/** Bytes of a column for rows of a, with what is kept behind it. */
export function columnBytesOf(a: Node): usize {
  const quads = inQuads(a);
  const sums: usize = quads && hasTable(a.type) ? LEVEL_SUMS : 0;
  if (hasSupers(a)) return superColumnBytes(!quads && hasSignedCodes(a.type), a.ne0 >> 8) + sums;
  return columnBytes(columnFor(a.type, quads), a.ne0 >> 5) + sums;
}

/** The column at p as rows of a want it, to px. */
export function spreadColumn(a: Node, p: usize, px: usize): void {
  const quads = inQuads(a);
  if (hasSupers(a)) {
    const nb = a.ne0 >> 8;
    expandSuper(p, nb, !quads && hasSignedCodes(a.type), px);
    if (quads) quadSums(a.type, nb, px);
  } else {
    expandColumn(p, a.ne0 >> 5, columnZero(a.type, quads), columnFor(a.type, quads), quads, px);
  }
}

/** `rows` rows at pw times the column at px; results to f32 at py. */
export function dotColumn(a: Node, pw: usize, rows: i32, px: usize, py: usize): void {
  const nb = a.ne0 / blockSize(a.type);
  if (hasSupers(a)) {
    if (inQuads(a)) dotSuperQuads(a.type, pw, rows / PAIR_ROWS, nb, px, py);
    else dotSuperRows(a.type, pw, a.nb1, rows, nb, px, py);
  } else {
    if (inQuads(a)) dotQuads(a.type, pw, rows / PAIR_ROWS, nb, px, py);
    else dotRows(a.type, pw, a.nb1, rows, nb, px, py);
  }
}
