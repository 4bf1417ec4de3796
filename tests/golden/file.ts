// The files of golden vectors on disk.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Case, casesOf } from "./cases.ts";

/** Folder of the files. */
export function goldenFolder(): string {
  return resolve(process.env.GOLDEN_DIR ?? "../shared/golden", "ops");
}

/** Names of the files, sorted. */
export function goldenFiles(): string[] {
  const folder = goldenFolder();
  if (!existsSync(folder)) throw new Error(`no golden vectors in ${folder}: set GOLDEN_DIR`);
  return readdirSync(folder)
    .filter((n) => n.endsWith(".gguf"))
    .sort();
}

/** Cases of one file. */
export function* fileCases(name: string): Generator<Case> {
  yield* casesOf(new Uint8Array(readFileSync(join(goldenFolder(), name))), name);
}

/** All cases of all files. */
export function* goldenCases(): Generator<Case> {
  for (const name of goldenFiles()) yield* fileCases(name);
}
