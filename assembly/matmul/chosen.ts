// Panels of eight rows times columns that stand anywhere and whose results go anywhere (kernels/mul_mat_id.ts).
//
// Elements are summed as in kernels/mul_mat.ts: same bits.
//
//   list     of columns, each {activations, first element of the result}, two addresses
//   scratch  tiles | panel | groups of columns

import { Flag } from "../abi";
import { Node } from "../node";
import { isSuper } from "../quants/quad_types";
import { isWide } from "../quants/super";
import { PANEL_ROWS, isMirrored, panelBytes, unpackPanel } from "./blocks";
import { SIGNS, expandGroup, groupBytes } from "./columns";
import { unpackQuads } from "./quad_panel";
import { centreOf, pairsGroups, signsFor, spreadFor, weightsFor, zeroFor } from "./spread";
import {
  SUPER_TILE_BYTES,
  expandSuperGroup,
  superGroupBytes,
  superPanelBytes,
  unpackSuper,
} from "./super_panel";
import { TILE_PAIR_BYTES, superTile } from "./super_tile";
import { tileSigns } from "./signs_tile";
import { tile } from "./tile";

/** Activations of a column of a list. */
@inline
export function columnAt(list: usize, c: i32): usize {
  return load<usize>(list + ((<usize>c) << 3));
}

/** Where its results go. */
@inline
export function resultAt(list: usize, c: i32): usize {
  return load<usize>(list + ((<usize>c) << 3), 4);
}

/** Rows [first, last) of the matrix at pa, of the type of `a`, first a multiple of eight, times `count` columns. */
export function chosenPanels(
  a: Node,
  pa: usize,
  first: i32,
  last: i32,
  count: i32,
  list: usize,
  scratch: usize,
): void {
  const supers = isSuper(a.type);
  const nb = supers ? a.ne0 >> 8 : a.ne0 >> 5;
  const quads = (a.flags & Flag.QUADS) != 0;
  const kind = spreadFor(a.type, quads);
  const signs = supers && signsFor(a.type, quads);
  const panel = scratch + TILE_PAIR_BYTES;
  const pairs = supers && pairsGroups(supers, signs);
  const groups = panel + (supers ? superPanelBytes(nb) : panelBytes(nb));
  const group = supers ? superGroupBytes(signs, nb) : groupBytes(kind, nb);
  for (let c = 0, p = groups; c < count; c += 4, p += group) {
    expandChosen(a.type, quads, nb, list, c, count, kind, signs, p);
  }
  const weights = weightsFor(a.type, quads);
  for (let r = first; r < last; r += PANEL_ROWS) {
    const rows = min(PANEL_ROWS, last - r);
    const pw = pa + <usize>r * a.nb1;
    if (quads) unpackQuads(a.type, pw, nb, panel);
    else if (supers) unpackSuper(a.type, pw, a.nb1, rows, nb, panel);
    else unpackPanel(a.type, pw, a.nb1, rows, nb, panel);
    for (let c = 0, p = groups; c < count;) {
      const pair = pairs && c + 4 < count;
      if (supers) superTile(a.type, panel, p, pair ? group : 0, nb, signs, weights, scratch);
      else if (ASC_FEATURE_RELAXED_SIMD && kind == SIGNS) tileSigns(panel, p, nb, scratch);
      else tile(kind, isMirrored(a.type), panel, p, nb, scratch);
      storeChosen(list, c, min(c + 4, count), r, rows, scratch);
      if (pair) {
        storeChosen(list, c + 4, min(c + 8, count), r, rows, scratch + SUPER_TILE_BYTES);
      }
      c += pair ? 8 : 4;
      p += pair ? 2 * group : group;
    }
  }
}

// Rows r and on of columns [c, end).
function storeChosen(list: usize, c: i32, end: i32, r: i32, rows: i32, tile: usize): void {
  for (; c < end; c++, tile += 32) {
    memory.copy(resultAt(list, c) + ((<usize>r) << 2), tile, (<usize>rows) << 2);
  }
}

// The group that starts at column c; columns past the last repeat it.
function expandChosen(
  type: i32,
  quads: bool,
  nb: i32,
  list: usize,
  c: i32,
  count: i32,
  kind: i32,
  signs: bool,
  px: usize,
): void {
  const p0 = columnAt(list, c);
  const p1 = columnAt(list, min(c + 1, count - 1));
  const p2 = columnAt(list, min(c + 2, count - 1));
  const p3 = columnAt(list, min(c + 3, count - 1));
  if (isSuper(type)) expandSuperGroup(p0, p1, p2, p3, nb, signs, isWide(type), px);
  else expandGroup(p0, p1, p2, p3, nb, zeroFor(type, quads), centreOf(type), kind, px);
}
