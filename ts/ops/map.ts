// What the elementwise operators of one source share.

import { FLOATS, need, needType, type OpDef, type Result } from "./op.ts";

/** An elementwise operator; `pack` checks the parameters and turns them into slots. */
export function mapDef<P>(name: string, doc: string, pack?: (params: P) => readonly number[]): OpDef<P> {
  return {
    name,
    doc,
    inplace: true,
    infer(src, params): Result {
      const a = need(name, src, 0);
      needType(name, "a", a.type, FLOATS);
      return { type: a.type, ne: a.ne, ...(pack === undefined ? {} : { params: pack(params) }) };
    },
  };
}
