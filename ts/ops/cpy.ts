// CPY: copies into a tensor, or casts to a type.

import { contiguous } from "../shape.ts";
import { type Type, typeInfo } from "../types.ts";
import { copyScratch, needCopy } from "./copy.ts";
import { need, needParam, needShape, needWritable, type OpDef, type Result } from "./op.ts";

/** Parameters of CPY. */
export interface CpyParams {
  /** without a target: type of the result */
  readonly type?: Type;
}

export const cpyDef: OpDef<CpyParams> = {
  name: "cpy",
  doc: "a [...], target [...] of as many elements -> a view of target, with a's elements in row-major order, converted; without a target a new tensor of the type asked for.",
  inplace: false,
  infer(src, { type }): Result {
    const a = need("cpy", src, 0);
    const target = src[1];
    if (target !== undefined) {
      needCopy("cpy", a, target);
      needWritable("cpy", target);
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
    needCopy("cpy", a, { type: type!, ne: a.ne, nb: contiguous(type!, a.ne) });
    return { type: type!, ne: a.ne };
  },
  scratch: copyScratch,
};
