// Sampler settings that a file recommends: its author knows the model better than a default does.

import type { GgufFile } from "../gguf/index.ts";
import type { SamplingOptions } from "./sampling.ts";

/** GGUF keys `general.sampling.*` and the options they stand for. */
const KEYS = {
  temperature: ["temp", 0, Infinity],
  topK: ["top_k", 0, 2 ** 31],
  topP: ["top_p", 0, 1],
  minP: ["min_p", 0, 1],
} as const satisfies Partial<
  Record<keyof SamplingOptions, readonly [key: string, low: number, high: number]>
>;

/** What the file recommends; values that make no sense are left out, because a recommendation must not stop a load. */
export function recommendedSampling(metadata: GgufFile["metadata"]): Partial<SamplingOptions> {
  const found = Object.entries(KEYS).flatMap(([option, [key, low, high]]) => {
    const value = metadata.get(`general.sampling.${key}`)?.value;
    const usable = typeof value === "number" && value >= low && value <= high && value < Infinity;
    return usable ? [[option, value]] : [];
  });
  return Object.fromEntries(found) as Partial<SamplingOptions>;
}
