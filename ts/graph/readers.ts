// Who reads a tensor of a program: what rewrites ask before they let a result go.

import { Flag } from "../../assembly/abi.ts";
import type { Program } from "./program.ts";
import type { Tensor } from "./tensor.ts";

/** Uses of each tensor as a source, views of it counted too. */
export function countReaders({ nodes }: Program): Map<Tensor, number> {
  const readers = new Map<Tensor, number>();
  const count = (t: Tensor): void => void readers.set(t, (readers.get(t) ?? 0) + 1);
  for (const { tensor, src } of nodes) {
    for (const s of src) if (s !== undefined && s !== tensor) count(s);
    if (tensor.viewSrc !== undefined && !src.includes(tensor.viewSrc)) count(tensor.viewSrc);
  }
  return readers;
}

/** True when one node alone reads a tensor, and neither the user nor what is `kept` does. */
export function isPrivate(
  t: Tensor,
  readers: ReadonlyMap<Tensor, number>,
  kept: ReadonlySet<Tensor>,
): boolean {
  return t.viewSrc === undefined && readers.get(t) === 1 && (t.flags & Flag.OUTPUT) === 0 && !kept.has(t);
}
