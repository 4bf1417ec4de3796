// Where test data lies, and what happens when it does not: a visible skip on a laptop, a failure in CI.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, test } from "vitest";

/** Kinds of test data; the environment variable of each is `<KIND>_DIR`. */
export type Kind = "golden" | "models" | "vocab" | "corpus" | "planning";

/** Folder of a kind: the environment's, else `../shared/<kind>`. */
export function dataDir(kind: Kind): string {
  return resolve(process.env[`${kind.toUpperCase()}_DIR`] ?? join("../shared", kind));
}

/** Bytes of a data file. */
export function readData(kind: Kind, path: string): Uint8Array {
  return new Uint8Array(readFileSync(join(dataDir(kind), path)));
}

/** A parsed JSON data file. */
export function readJson<T>(kind: Kind, path: string): T {
  return JSON.parse(readFileSync(join(dataDir(kind), path), "utf8")) as T;
}

/** `describe` for tests that need a data folder. Without it: skipped with the reason, or failed when CI=true. */
export function describeWith(kind: Kind, title: string, body: () => void): void {
  if (existsSync(dataDir(kind)) || process.env.CI === "true") return void describe(title, body);
  // The body is not run: it may read the data to list its tests.
  test.skip(`${title} (needs ${dataDir(kind)})`, () => {});
}
