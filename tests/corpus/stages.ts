// The stages of the model-level corpus that are built.
import { parseGguf } from "../../ts/gguf/index.ts";
import { loadParams, loadTensors } from "../../ts/llm/arch/index.ts";
import { Prompter } from "../../ts/llm/chat/prompt.ts";
import { ChatTemplates } from "../../ts/llm/chat/templates.ts";
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

/** Renders a conversation of three messages; the model itself loads whatever its template is. */
export async function chatStage(bytes: Uint8Array): Promise<number[]> {
  const tokenizer = loadStage(bytes);
  const templates = ChatTemplates.read(new Metadata(parseGguf(bytes).metadata));
  const messages = [
    { role: "user", content: "hello" },
    { role: "assistant", content: "the" },
    { role: "user", content: "hello the" },
  ];
  return new Prompter(templates, tokenizer).encode({ messages });
}

export const stages: Stages = {
  load: async (bytes) => void loadStage(bytes),
  encode: async (bytes) => void encodeStage(bytes),
  chat: async (bytes) => void (await chatStage(bytes)),
};
