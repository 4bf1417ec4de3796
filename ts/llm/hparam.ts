// Checks of single hyper-parameters, and the error for a value that its rule forbids.

import { FormatError } from "../errors.ts";
import type { Metadata } from "./metadata.ts";

/** A dimension above this cannot be meant: products of two stay exact in a double. */
export const MAX_DIM = 2 ** 26;

/** A required count in lowest..highest. @throws {FormatError} missing-key, bad-type, bad-hparam */
export function ranged(meta: Metadata, key: string, lowest: number, highest: number): number {
  return within(key, meta.u32(key), lowest, highest);
}

/** @throws {FormatError} bad-hparam when `x` is not in lowest..highest */
export function within(key: string, x: number, lowest: number, highest: number): number {
  if (x >= lowest && x <= highest) return x;
  throw hparam(key, x, lowest === highest ? `${lowest}` : `${lowest}..${highest}`);
}

/** @throws {FormatError} bad-hparam when `x` is not above 0 */
export function positive(key: string, x: number): number {
  if (x > 0) return x;
  throw hparam(key, x, "above 0");
}

/** @throws {FormatError} bad-hparam when `x` is below 0 */
export function notNegative(key: string, x: number): number {
  if (x >= 0) return x;
  throw hparam(key, x, "0 or more");
}

/** The error for a value that its rule forbids. */
export function hparam(key: string, actual: number | string, rule: string): FormatError {
  return new FormatError("bad-hparam", `${key}: ${actual}, expected ${rule}`, {
    key,
    expected: rule,
    actual,
  });
}
