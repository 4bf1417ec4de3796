// PAD: zeros, or the other end, around a tensor.

import type { Shape } from "../shape.ts";
import { FLOATS, need, needInteger, needParam, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of PAD. */
export interface PadParams {
  /** elements in front, per dimension; none when absent */
  readonly left?: readonly number[];
  /** elements behind, per dimension; none when absent */
  readonly right?: readonly number[];
  /** continue with the other end of the tensor instead of zeros */
  readonly circular?: boolean;
}

export const padDef: OpDef<PadParams> = {
  name: "pad",
  doc: "a [...] of a float type -> a with left[i] elements in front and right[i] behind in dimension i: zeros, or circular a continued from its other end.",
  inplace: false,
  infer(src, { left = [], right = [], circular = false }): Result {
    const a = need("pad", src, 0);
    needType("pad", "a", a.type, FLOATS);
    for (const [name, list] of Object.entries({ left, right }))
      needParam("pad", name, list, list.length <= 4, "up to four counts");
    const slots: number[] = [];
    const ne = a.ne.map((n, i) => {
      const l = count(`left[${i}]`, left[i], n, circular);
      const r = count(`right[${i}]`, right[i], n, circular);
      slots.push(l, r);
      return n + l + r;
    });
    return { type: a.type, ne: ne as unknown as Shape, params: [...slots, circular ? 1 : 0] };
  },
};

function count(name: string, value: number | undefined, n: number, circular: boolean): number {
  needInteger("pad", name, value ?? 0, 0, circular ? n : 2 ** 30);
  return value ?? 0;
}
