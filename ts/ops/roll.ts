// ROLL: elements shifted around.

import { need, needInteger, needParam, needType, type OpDef, type Result, FLOATS } from "./op.ts";

/** Parameters of ROLL. */
export interface RollParams {
  /** places towards higher indices per dimension, none when absent; less than the dimension, negative = towards lower ones */
  readonly shift: readonly number[];
}

export const rollDef: OpDef<RollParams> = {
  name: "roll",
  doc: "a [...] of a float type -> a with each element shift[i] places further in dimension i, around the end.",
  inplace: false,
  infer(src, { shift }): Result {
    const a = need("roll", src, 0);
    needType("roll", "a", a.type, FLOATS);
    needParam("roll", "shift", shift, shift.length <= 4, "up to four counts");
    const params = a.ne.map((n, i) => {
      const s = shift[i] ?? 0;
      const limit = Math.max(0, n - 1);
      needInteger("roll", `shift[${i}]`, s, -limit, limit);
      return s;
    });
    return { type: a.type, ne: a.ne, params };
  },
};
