// The golden logits of model architectures: what the files say, and the measure by which results are compared.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { dataDir } from "../data.ts";

/** Logits by position, and those after the last decode step. */
interface Rows {
  readonly logits: Readonly<Record<string, readonly number[]>>;
  readonly logits_last: readonly number[];
}

/** A causal model: logits after a prompt and through eight steps. */
export interface CausalCase extends Rows {
  readonly kind: "causal";
  /** general.architecture */
  readonly arch: string;
  readonly prompt: readonly number[];
  readonly decode: readonly { readonly id: number; readonly margin: number }[];
  readonly ideal?: Rows;
  readonly tolerance: Tolerance;
}

/** An embedding model: one pooled vector per input. */
export interface EmbeddingCase {
  readonly kind: "embedding";
  readonly arch: string;
  readonly inputs: readonly (readonly number[])[];
  readonly pooled: readonly (readonly number[])[];
  readonly hidden_first_input: readonly (readonly number[])[];
  readonly ideal?: { readonly pooled: readonly (readonly number[])[] };
  readonly tolerance: Tolerance;
}

export interface Tolerance {
  readonly reference_nmse_max: number;
  readonly ideal_nmse_max?: number;
  readonly greedy_margin?: number;
}

/** Texts with their ids in the file's own vocabulary. */
export interface TextIds {
  readonly texts: readonly { readonly text: string; readonly ids: readonly number[] }[];
}

export type GoldenCase = (CausalCase | EmbeddingCase) & TextIds;

/** Folder of the pairs NAME.gguf, NAME.json: ARCH_DIR, else `arch` of the golden data. */
export function archDir(): string {
  return resolve(process.env["ARCH_DIR"] ?? join(dataDir("golden"), "arch"));
}

/** Names of all pairs, sorted. */
export function caseNames(): string[] {
  const names = readdirSync(archDir()).filter((name) => name.endsWith(".json"));
  return names.map((name) => name.slice(0, -".json".length)).sort();
}

export function readCase(name: string): GoldenCase {
  return JSON.parse(readFileSync(join(archDir(), `${name}.json`), "utf8")) as GoldenCase;
}

export function modelFile(name: string): string {
  return join(archDir(), `${name}.gguf`);
}

/** sum (a - b)^2 / sum b^2 over all rows; infinite when a length or a number is wrong. */
export function nmse(a: readonly ArrayLike<number>[], b: readonly ArrayLike<number>[]): number {
  let error = a.length === b.length ? 0 : Infinity;
  let power = 0;
  b.forEach((row, r) => {
    if (a[r]?.length !== row.length) error = Infinity;
    for (let i = 0; i < row.length; i++) {
      error += (Number(a[r]?.[i]) - row[i]!) ** 2;
      power += row[i]! ** 2;
    }
  });
  return Number.isNaN(error) ? Infinity : error / power;
}

/** Index of the largest number. */
export function best(row: ArrayLike<number>): number {
  let at = 0;
  for (let i = 1; i < row.length; i++) if (row[i]! > row[at]!) at = i;
  return at;
}
