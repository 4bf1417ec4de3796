// The shape of the corpus manifests, and where they lie.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** What may become of a file. `error` is a code, or "any". */
export interface Outcome {
  readonly action: "accept" | "reject" | "no-crash";
  readonly error?: string;
}

/** A value as JSON can hold it: 64-bit integers, NaN, infinities and -0 are strings. */
export type Json = string | number | boolean | null | readonly Json[];

export interface Expect extends Outcome {
  /** of the arch corpus */
  readonly stage?: "load" | "encode" | "chat";
  /** further outcomes that will do */
  readonly any?: readonly Outcome[];
  readonly n_kv?: number;
  readonly n_tensors?: number;
  readonly kv?: { readonly [key: string]: Json };
  readonly tensors?: readonly ExpectedTensor[];
  readonly f32?: { readonly [tensor: string]: readonly (number | string)[] };
}

export interface ExpectedTensor {
  readonly name: string;
  readonly ne: readonly number[];
  readonly type: string;
  readonly nbytes: number;
  readonly sha256?: string;
}

/** How to make a file that is too large to ship: its size, and hex bytes at positions. */
export interface Recipe {
  readonly size: number;
  readonly writes: readonly (readonly [position: number, hex: string])[];
}

export interface Entry {
  readonly file: string | null;
  readonly name?: string;
  readonly expect: Expect;
  readonly recipe?: Recipe;
}

/** Counts of a run. */
export interface Report {
  passed: number;
  failed: number;
  notBuilt: number;
  failures: { name: string; reason: string }[];
}

/** Folder of the corpus. */
export function corpusDir(): string {
  return resolve(process.env.CORPUS_DIR ?? "../shared/corpus");
}

/** Entries of `<kind>-manifest.json`. */
export function readManifest(kind: "container" | "arch" | "safetensors"): readonly Entry[] {
  const list: unknown = JSON.parse(readFileSync(join(corpusDir(), `${kind}-manifest.json`), "utf8"));
  if (!Array.isArray(list)) throw new TypeError(`${kind}-manifest.json is no list`);
  return list as Entry[];
}

/** Name of an entry, for reports. */
export function nameOf(entry: Entry): string {
  return entry.file ?? entry.name ?? "without a name";
}
