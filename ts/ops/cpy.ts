// CPY: copies into a tensor, or casts to a type.

import { contiguous, sameShape } from "../shape.ts";
import { isQuantized, Type, typeInfo } from "../types.ts";
import { copyScratch, needCopy } from "./copy.ts";
import {
  need,
  needParam,
  needShape,
  needType,
  needWritable,
  type OpDef,
  type Operand,
  type Result,
} from "./op.ts";

/** Parameters of CPY. */
export interface CpyParams {
  /** without a target: type of the result */
  readonly type?: Type;
}

export const cpyDef: OpDef<CpyParams> = {
  name: "cpy",
  doc: "a [...], target [...] of as many elements -> a view of target, with a's elements in row-major order, converted; without a target a new tensor of the type asked for. importance [ne0] F32, for a block type: errors in a column count so much.",
  inplace: false,
  infer(src, { type }): Result {
    const a = need("cpy", src, 0);
    const target = src[1];
    if (target !== undefined) {
      needCopy("cpy", a, target);
      needWritable("cpy", target);
      if (src[2] !== undefined) needImportance(a, src[2], target);
      return { type: target.type, ne: target.ne, nb: target.nb, viewOf: 1 };
    }
    const info = type === undefined ? undefined : typeInfo(type);
    needParam("cpy", "type", type, info !== undefined, "an element type, because there is no target");
    needShape(
      "cpy",
      a.ne[0] % info!.blockSize === 0,
      a.ne,
      [info!.blockSize],
      "rows are no multiple of the block",
    );
    const made = { type: type!, ne: a.ne, nb: contiguous(type!, a.ne) };
    needCopy("cpy", a, made);
    if (src[2] !== undefined) needImportance(a, src[2], made);
    return { type: type!, ne: a.ne };
  },
  scratch: copyScratch,
};

// Rows as a whole, F32 to a block type.
function needImportance(a: Operand, importance: Operand, to: Operand): void {
  needType("cpy", "importance", importance.type, [Type.F32]);
  needType("cpy", "source", a.type, [Type.F32]);
  const fits = importance.ne[0] === a.ne[0] && importance.ne[1] * importance.ne[2] * importance.ne[3] === 1;
  needShape("cpy", fits, a.ne, importance.ne, "importance is a number for each column");
  const whole = isQuantized(to.type) && sameShape(a.ne, to.ne) && importance.nb[0] === 4;
  needShape("cpy", whole, a.ne, to.ne, "importance is for whole rows that become blocks");
}
