// How positions are stretched beyond the trained context: the keys of rope.scaling.

import { hparam, positive, within } from "./hparam.ts";
import type { Metadata } from "./metadata.ts";

/** How positions are stretched beyond the trained context. */
export interface RopeScaling {
  readonly type: "none" | "linear" | "longrope" | "yarn";
  /** stretch; 1 = none */
  readonly factor: number;
  /** context length the model was trained with before stretching */
  readonly nCtxOrig: number;
  /** the rope operator's magnitude parameter; the operator itself adds 1 + 0.1 ln(factor) when `ext` is not 0 */
  readonly attnFactor: number;
  readonly betaFast: number;
  readonly betaSlow: number;
  /** share of extrapolation: 1 for yarn, else 0 */
  readonly ext: number;
}

/** Rotation of a layer's queries and keys. */
export interface Rope {
  readonly base: number;
  readonly scaling: RopeScaling;
}

/** YaRN's magnitude for a factor above 1: 1 + 0.1 m ln(factor). */
export function yarnMagnitude(factor: number, m = 1): number {
  return factor > 1 ? 1 + 0.1 * m * Math.log(factor) : 1;
}

/**
 * Reads the keys of rope.scaling. `magnitude` is what yarn multiplies queries and keys with, beside the file's own
 * attn_factor.
 *
 * @throws {FormatError} bad-type, bad-hparam
 */
export function readRopeScaling(
  meta: Metadata,
  arch: string,
  nCtxTrain: number,
  magnitude: (factor: number) => number = yarnMagnitude,
): RopeScaling {
  const key = (name: string): string => `${arch}.rope.scaling.${name}`;
  const type = meta.str(key("type"), "linear");
  if (type !== "none" && type !== "linear" && type !== "yarn" && type !== "longrope") {
    throw hparam(key("type"), `"${type}"`, "none, linear, yarn or longrope");
  }
  const stored = meta.f32(key("factor"), meta.f32(`${arch}.rope.scale_linear`, 0));
  const factor = type === "none" || stored === 0 ? 1 : positive(key("factor"), stored);
  const ext = type === "yarn" ? 1 : 0;
  const nCtxOrig = meta.u32(key("original_context_length"), nCtxTrain);
  const attnFactor = positive(key("attn_factor"), meta.f32(key("attn_factor"), 1));
  return Object.freeze({
    type,
    factor,
    nCtxOrig: within(key("original_context_length"), nCtxOrig, 1, 2 ** 31 - 1),
    attnFactor:
      ext === 0 ? attnFactor : attnFactor * (magnitude(factor) / ownMagnitude(key("factor"), factor)),
    betaFast: positive(key("yarn_beta_fast"), meta.f32(key("yarn_beta_fast"), 32)),
    betaSlow: positive(key("yarn_beta_slow"), meta.f32(key("yarn_beta_slow"), 1)),
    ext,
  });
}

// The operator multiplies by 1 + 0.1 ln(factor) at any factor.
function ownMagnitude(key: string, factor: number): number {
  const magnitude = 1 + 0.1 * Math.log(factor);
  if (magnitude <= 0) throw hparam(key, factor, "above e^-10 for yarn");
  return magnitude;
}
