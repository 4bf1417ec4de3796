// How activations are spread out for weights of a type: in file order or in quads, for single columns or for panels.

import { Type } from "../abi";
import { WIDE_NONE, pairsVectors, sumsPairs, wideDot, wideZero } from "../math/dot";
import { hasLevels, hasMin, hasTable, levelZero } from "../quants/quad_types";
import { kindOf, zeroPoint } from "./blocks";
import { SEEDED, STARTS } from "./columns";
import { panelLevelZero } from "./quad_panel";
import { LEVEL_ZERO } from "./quad_tables";
import { hasSignedCodes } from "./super";
import { MINIMA, NO_WEIGHTS, ZERO_POINT } from "./super_tile";

// Signed codes in quads as the second operand of a dot that takes any byte: levels with what they need added.
@inline
function isDirect(type: i32, quads: bool): bool {
  return quads && (hasLevels(type) || type == Type.Q8_0) && wideDot() != WIDE_NONE;
}

/** Kind of the columns of blocks of 32 (matmul/columns.ts). */
export function spreadFor(type: i32, quads: bool): i32 {
  return isDirect(type, quads) ? SEEDED : kindOf(type);
}

/** The code of 0 in such blocks, in panels. */
export function zeroFor(type: i32, quads: bool): i32 {
  return quads && hasLevels(type) ? panelLevelZero() : zeroOf(type, quads);
}

// The same of types without levels.
function zeroOf(type: i32, quads: bool): i32 {
  return isDirect(type, quads) ? wideZero() : zeroPoint(type);
}

/** Kind of a single column of such blocks: where pairs are summed, and codes stand for levels, STARTS. */
export function columnFor(type: i32, quads: bool): i32 {
  return quads && hasTable(type) && sumsPairs() ? STARTS : spreadFor(type, quads);
}

/** The code of 0 in it. */
export function columnZero(type: i32, quads: bool): i32 {
  if (!quads || !hasLevels(type)) return zeroOf(type, quads);
  return sumsPairs() ? LEVEL_ZERO : levelZero();
}

/** What a code of such blocks counts from while pairs are summed (matmul/columns.ts): then 32 of them stay within i16. */
export function centreOf(type: i32): i32 {
  return type == Type.Q5_0 || type == Type.Q5_1 ? 15 : zeroPoint(type);
}

/** Are columns of super-blocks SIGNS (matmul/columns.ts)? */
export function signsFor(type: i32, quads: bool): bool {
  return hasSignedCodes(type) && !isDirect(type, quads);
}

/** May panels take two groups of columns at once? Of those that are SIGNS only blocks of 32, where sumsPairs(). */
export function pairsGroups(supers: bool, signs: bool): bool {
  return ASC_FEATURE_RELAXED_SIMD && pairsVectors() && (!signs || (!supers && sumsPairs()));
}

/** What the weights of a panel of super-blocks are (matmul/super_tile.ts). */
export function weightsFor(type: i32, quads: bool): i32 {
  if (hasMin(type)) return MINIMA;
  if (type != Type.IQ4_XS || signsFor(type, quads)) return ZERO_POINT;
  return quads && panelLevelZero() != 0 ? ZERO_POINT : NO_WEIGHTS;
}
