// What the types in quads are like, for code that is one for all of them (quants/quads.ts).
//
// The functions fold where the type is known when compiling.

import { Type } from "../abi";
import { WIDE_SIGNED, wideDot } from "../math/dot";
import { LEVELS } from "./iq4_nl";
import { TABLE } from "./mxfp4";
import { BYTES, FIVES, NIBBLES, SIXES, THREES, TWOS, runBytes } from "./quad_codes";

/** How codes stand (quants/quad_codes.ts); -1 for a type that does not lie in quads. */
@inline
export function formOf(type: i32): i32 {
  switch (type) {
    case Type.Q4_0:
    case Type.Q4_1:
    case Type.IQ4_NL:
    case Type.MXFP4:
    case Type.Q4_K:
    case Type.IQ4_XS:
      return NIBBLES;
    case Type.Q5_0:
    case Type.Q5_1:
    case Type.Q5_K:
      return FIVES;
    case Type.Q8_0:
      return BYTES;
    case Type.Q6_K:
      return SIXES;
    case Type.Q3_K:
      return THREES;
    case Type.Q2_K:
      return TWOS;
    default:
      return -1;
  }
}

/** Blocks hold 256 weights, not 32. */
@inline
export function isSuper(type: i32): bool {
  return type >= Type.Q2_K && type != Type.IQ4_NL && type != Type.MXFP4;
}

/** Each block, or each scale in it, has a minimum. */
@inline
export function hasMin(type: i32): bool {
  return (
    type == Type.Q4_1 || type == Type.Q5_1 || type == Type.Q2_K || type == Type.Q4_K || type == Type.Q5_K
  );
}

/** Codes stand for entries of a table. */
@inline
export function hasTable(type: i32): bool {
  return type == Type.IQ4_NL || type == Type.IQ4_XS || type == Type.MXFP4;
}

/** The table of MXFP4 has its zero point added, that of the others is signed. */
@inline
export function hasLevels(type: i32): bool {
  return type == Type.IQ4_NL || type == Type.IQ4_XS;
}

/** Address of the table. */
@inline
export function tableOf(type: i32): usize {
  return type == Type.MXFP4 ? TABLE : LEVELS;
}

/** The code that means 0, of codes or table entries as they stand. */
@inline
export function zeroOf(type: i32): i32 {
  switch (type) {
    case Type.Q4_0:
      return 8;
    case Type.Q5_0:
      return 16;
    case Type.MXFP4:
      return 12;
    case Type.Q6_K:
      return 32;
    case Type.Q3_K:
      return 4;
    default:
      return 0;
  }
}

/** What is to be added to levels for the dots of a column: they are unsigned but where the engine takes signed bytes. */
@inline
export function levelZero(): i32 {
  return wideDot() == WIDE_SIGNED ? 0 : 128;
}

/** Where codes start in a block of a quad. */
@inline
export function codesAt(type: i32): usize {
  switch (type) {
    case Type.MXFP4:
      return 4;
    case Type.Q4_1:
    case Type.Q5_1:
      return 16;
    case Type.IQ4_XS:
      return 32;
    case Type.Q3_K:
      return 56;
    case Type.Q4_K:
    case Type.Q5_K:
      return 64;
    case Type.Q6_K:
      return 72;
    case Type.Q2_K:
      return 80;
    default:
      return 8;
  }
}

/** Bytes of a block of a quad; 0 for a type that has none. */
@inline
export function bytesOf(type: i32): usize {
  const form = formOf(type);
  return form < 0 ? 0 : codesAt(type) + runBytes(form) * (isSuper(type) ? 8 : 1);
}

/** Where the factor stands in a block in file order; that of the minima follows. MXFP4 has an exponent instead. */
@inline
export function factorAt(type: i32): usize {
  switch (type) {
    case Type.Q6_K:
      return 208;
    case Type.Q3_K:
      return 108;
    case Type.Q2_K:
      return 80;
    default:
      return 0;
  }
}
