// The stages of the model-level corpus that are built.
import { parseGguf } from "../../ts/gguf/index.ts";
import { loadParams, loadTensors } from "../../ts/llm/arch/index.ts";
import { Metadata } from "../../ts/llm/metadata.ts";
import { type Tokenizer, loadTokenizer } from "../../ts/llm/tokenizer.ts";
import type { Stages } from "./arch.ts";

/** All checks that come before the first byte of a weight. */
export function loadStage(bytes: Uint8Array): Tokenizer {
  const file = parseGguf(bytes);
  const meta = new Metadata(file.metadata);
  const params = loadParams(meta);
  const tokenizer = loadTokenizer(meta);
  loadTensors(params, file.tensors);
  return tokenizer;
}

/** Encodes text of which the vocabulary may have nothing, and decodes it again. */
export function encodeStage(bytes: Uint8Array): number[] {
  const tokenizer = loadStage(bytes);
  const ids = tokenizer.encode("hello the €q \u0000 日本 😀 \ud800");
  tokenizer.decode(ids);
  return ids;
}

export const stages: Stages = {
  load: async (bytes) => void loadStage(bytes),
  encode: async (bytes) => void encodeStage(bytes),
};
