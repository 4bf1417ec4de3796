// How activations are spread out for weights of a type: in file order or in quads, for single columns or for panels.

import { Type } from "../abi";
import { WIDE_NONE, pairsVectors, wideDot, wideZero } from "../math/dot";
import { hasLevels, hasMin, levelZero } from "../quants/quad_types";
import { kindOf, zeroPoint } from "./blocks";
import { SEEDED, SIGNS, SPLIT } from "./columns";
import { panelLevelZero } from "./quad_panel";
import { isSplit } from "./super";
import { MINIMA, NO_WEIGHTS, ZERO_POINT } from "./super_tile";

// Signed codes in quads as the second operand of a dot that takes any byte: levels with what they need added.
@inline
function isUnsplit(type: i32, quads: bool): bool {
  return quads && (hasLevels(type) || type == Type.Q8_0) && wideDot() != WIDE_NONE;
}

/** Kind of the columns of blocks of 32 (matmul/columns.ts). */
export function spreadFor(type: i32, quads: bool, panels: bool): i32 {
  if (isUnsplit(type, quads)) return SEEDED;
  const kind = kindOf(type);
  return ASC_FEATURE_RELAXED_SIMD && kind == SPLIT && !panels ? SIGNS : kind;
}

/** The code of 0 in such blocks. */
export function zeroFor(type: i32, quads: bool, panels: bool): i32 {
  if (quads && hasLevels(type)) return panels ? panelLevelZero() : levelZero();
  return isUnsplit(type, quads) ? wideZero() : zeroPoint(type);
}

/** Are columns of super-blocks split: panels in two parts, single ones in magnitudes and signs? */
export function splitFor(type: i32, quads: bool, panels: bool): bool {
  return isSplit(type) && !isUnsplit(type, quads);
}

/** May panels take two groups of columns at once? */
export function pairsGroups(split: bool): bool {
  return ASC_FEATURE_RELAXED_SIMD && pairsVectors() && wideDot() != WIDE_NONE && !split;
}

/** What the weights of a panel of super-blocks are (matmul/super_tile.ts). */
export function weightsFor(type: i32, quads: bool): i32 {
  if (hasMin(type)) return MINIMA;
  return type == Type.IQ4_XS && !(quads && panelLevelZero() != 0) ? NO_WEIGHTS : ZERO_POINT;
}
