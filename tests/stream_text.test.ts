// What a model writes byte by byte reaches the caller as whole characters.
import { expect, test } from "vitest";
import { loadModel, type Model } from "../ts/llm/index.ts";
import { describeWith, readData } from "./data.ts";

const TEXTS = {
  emoji: "dog 🐕‍🦺, flag 🏳️‍🌈, family 👨‍👩‍👧‍👦!",
  "Chinese, Japanese and Korean": "你好，世界。こんにちは世界、안녕하세요 세계",
  "combining marks": "e\u0301a\u0308o\u0302 नमस्ते ก็ด้วย Z\u0351\u036b\u0343\u036a",
  "a character outside the first plane in each place": "𝒜b𝒞\n𐍈 ",
};

/** Ids of the text's bytes, one each, and a hook that makes a model choose them in turn. */
function forced(model: Model, text: string): { ids: number[]; onLogits: (logits: Float32Array) => void } {
  const { tokenizer } = model;
  const byteIds = new Map<number, number>();
  for (let id = 0; id < tokenizer.nVocab; id++) {
    const [byte, ...more] = tokenizer.piece(id);
    if (byte !== undefined && more.length === 0) byteIds.set(byte, id);
  }
  const ids = Array.from(new TextEncoder().encode(text), (byte) => byteIds.get(byte)!);
  let step = 0;
  const onLogits = (logits: Float32Array): void => {
    logits.fill(-1e9);
    logits[ids[step++]!] = 0;
  };
  return { ids, onLogits };
}

async function collect(stream: AsyncIterable<string>): Promise<string[]> {
  const parts: string[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

describeWith("models", "text of stories260K, a byte per token", () => {
  const load = (): Promise<Model> =>
    loadModel(readData("models", "stories260K/stories260K-f32.gguf") as Uint8Array<ArrayBuffer>, {
      nThreads: 1,
      chatTemplate: "{{ messages[0].content }}",
    });

  test.each(Object.entries(TEXTS))("%s", async (_kind, text) => {
    await using model = await load();
    const { ids, onLogits } = forced(model, text);
    const parts = await collect(
      model.generate("Once", { maxTokens: ids.length, ignoreEos: true, temperature: 0, onLogits }),
    );
    expect(parts.join("")).toBe(text);
    expect(ids.length).toBeGreaterThan([...text].length);
    for (const part of parts) {
      expect(part).not.toContain("\ufffd");
      expect(part).not.toMatch(/\p{Cs}/u); // half a pair
    }
  });
});
