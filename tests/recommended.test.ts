// Sampler settings that a file recommends.
import { expect, test } from "vitest";
import { GgufType } from "../ts/gguf/index.ts";
import { recommendedSampling } from "../ts/llm/recommended.ts";
import { metaMap } from "./meta.ts";

test("takes what the file recommends and leaves out what makes no sense", () => {
  const good = metaMap({
    "general.sampling.temp": { f32: 0.5 },
    "general.sampling.top_k": { type: GgufType.INT32, value: 20 },
    "general.sampling.min_p": { f32: 0.25 },
  });
  expect(recommendedSampling(good)).toEqual({ temperature: 0.5, topK: 20, minP: 0.25 });
  const bad = metaMap({
    "general.sampling.temp": { f32: -1 },
    "general.sampling.top_k": "many",
    "general.sampling.top_p": { f32: NaN },
    "general.sampling.min_p": { f32: 2 },
  });
  expect(recommendedSampling(bad)).toEqual({});
});
