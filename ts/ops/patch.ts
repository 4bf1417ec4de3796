// What ACC and SET share: a window of a copy of `a`, given by strides and an offset in bytes.

import { contiguous, isContiguous, nbytes } from "../shape.ts";
import type { Type } from "../types.ts";
import { need, needInteger, needParam, needShape, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of ACC and SET. */
export interface PatchParams {
  /** bytes between neighbours of the window in dimensions 1, 2, 3 of the result */
  readonly nb: readonly [number, number, number];
  /** bytes to the window's first element */
  readonly offset: number;
  /** the result is a view of `a`, which is changed */
  readonly inplace?: boolean;
}

/** An operator on a window. */
export function patchDef(name: string, doc: string, types: readonly Type[]): OpDef<PatchParams> {
  return {
    name,
    doc,
    inplace: false,
    infer(src, { nb, offset, inplace = false }): Result {
      const a = need(name, src, 0);
      const b = need(name, src, 1);
      needType(name, "a", a.type, types);
      needType(name, "b", b.type, [a.type]);
      for (const n of [...nb, offset]) {
        needInteger(name, "nb and offset", n, 0, 2 ** 31 - 1);
        needParam(name, "nb and offset", n, n % 4 === 0, "a multiple of 4");
      }
      const size = nbytes(a.type, a.ne, contiguous(a.type, a.ne));
      const end = offset + nbytes(b.type, b.ne, [4, ...nb]);
      needParam(name, "end", end, end <= size, `at most ${size} bytes, the size of a`);
      const params = [...nb, offset, inplace ? 1 : 0];
      if (!inplace) return { type: a.type, ne: a.ne, params };
      needShape(
        name,
        isContiguous(a.type, a.ne, a.nb),
        a.ne,
        a.nb,
        "a has gaps: it cannot be changed in place",
      );
      return { type: a.type, ne: a.ne, nb: a.nb, viewOf: 0, params };
    },
  };
}
