// Comparing variants of models with the reference in double precision, and the tensors they are made of.
import { expect } from "vitest";
import type { TensorData } from "../../ts/gguf/index.ts";
import { loadModel, type Model } from "../../ts/llm/index.ts";
import { Type } from "../../ts/types.ts";
import { samples, stream } from "../core.ts";
import type { Fake } from "../meta.ts";
import { nmse } from "./golden.ts";
import { Model64 } from "./reference/model.ts";

/** A file, made when its test runs. */
export type Variant = readonly [title: string, bytes: () => Uint8Array<ArrayBuffer>];

export const LIMIT = 1e-9;
export const IDS = Array.from({ length: 40 }, (_, i) => 5 + ((i * i + 7 * i) % 90));

/** A further tensor of random numbers around `middle`. */
export function extra(name: string, ne: readonly number[], size = 0.3, middle = 0): TensorData {
  const n = ne.reduce((a, b) => a * b, 1);
  const values = samples(n, stream(name.length + n)).map((x) => middle + size * x);
  return { name, type: Type.F32, ne, data: new Uint8Array(values.buffer) };
}

export const norm = (name: string, n: number): TensorData => extra(name, [n], 0.3, 1);
export const each = (layers: number, of: (blk: string) => TensorData[]): TensorData[] =>
  Array.from({ length: layers }, (_, i) => of(`blk.${i}.`)).flat();

export async function withModel(
  bytes: Uint8Array<ArrayBuffer>,
  use: (model: Model) => Promise<void>,
): Promise<void> {
  const model = await loadModel(bytes, { nThreads: 1, kvType: Type.F32, nBatch: 16 });
  try {
    await use(model);
  } finally {
    model.dispose();
  }
}

export function compare(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  return withModel(bytes, async (model) => {
    const reference = new Model64(bytes);
    const [rows] = await model.embed([IDS], { pooling: "none" });
    expect(rows!.embedding).toHaveLength(IDS.length * model.params.nEmbd);
    const flat = reference.rows(IDS).flatMap((row) => Array.from(row));
    expect(nmse([rows!.embedding], [flat])).toBeLessThan(LIMIT);
    if (reference.causal) await compareLogits(model, reference.logits(IDS));
  });
}

export async function compareLogits(model: Model, want: readonly ArrayLike<number>[]): Promise<void> {
  for (const n of [1, 2, 7, 17, 33, IDS.length]) {
    const seen: Float32Array[] = [];
    const onLogits = (logits: Float32Array): void => void seen.push(logits.slice());
    await model.complete(IDS.slice(0, n), { temperature: 0, maxTokens: 1, ignoreEos: true, onLogits });
    expect(nmse([seen[0]!], [want[n - 1]!])).toBeLessThan(LIMIT);
  }
}

export const rope = (arch: string, keys: Record<string, Fake>): Record<string, Fake> =>
  Object.fromEntries(Object.entries(keys).map(([key, value]) => [`${arch}.rope.${key}`, value]));
