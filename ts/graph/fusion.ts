// Names of the fusions: neighbours in a graph that a backend may compute as one node. What a name stands for is the same
// on every backend; which of them it has is its own affair (ts/graph/fuse.ts, ts/webgpu/fuse.ts).

import { checkOptions, GraphError } from "../errors.ts";

/** What {@link FuseOption} switches. */
export const FUSIONS = [
  /** a norm and the product by its row of weights */
  "norm_mul",
  /** a product with weights and what is added to it: a bias, or the residual stream */
  "mul_mat_add",
  /** two products of the same columns and the GLU of both */
  "glu_pair",
  /** a sum and the norm of it */
  "add_norm",
  /** a rotation and the rows of a cache that it is written to */
  "rope_set_rows",
] as const;

/** A fusion by name. */
export type FusionName = (typeof FUSIONS)[number];

/** All fusions on (true, the default) or off, or some of them: names left out stay on. */
export type FuseOption = boolean | Readonly<Partial<Record<FusionName, boolean>>>;

/** Those that are on. */
export type Fusions = ReadonlySet<FusionName>;

/** Every fusion. */
export const ALL_FUSIONS: Fusions = new Set(FUSIONS);

/**
 * Reads the option.
 *
 * @throws {TypeError} for a name that is none
 * @throws {GraphError} bad-param
 */
export function readFusions(option: FuseOption = true): Fusions {
  if (typeof option === "boolean") return option ? ALL_FUSIONS : new Set();
  if (typeof option !== "object" || option === null) throw refused("", option);
  checkOptions("fuse", option, FUSIONS);
  for (const [name, on] of Object.entries(option)) {
    if (on !== undefined && typeof on !== "boolean") throw refused(`.${name}`, on);
  }
  return new Set(FUSIONS.filter((name) => option[name] !== false));
}

function refused(where: string, actual: unknown): GraphError {
  const expected = where === "" ? "true, false or names with true or false" : "true or false";
  return new GraphError("bad-param", `fuse${where} is ${String(actual)}, expected ${expected}`, {
    expected,
    actual,
  });
}
