// Tokenizers and parameters on files of others: real vocabularies, the shared models, llama.cpp's own ids.
import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parseGguf } from "../ts/gguf/index.ts";
import { loadParams, loadTensors } from "../ts/llm/arch/index.ts";
import { StreamDecoder } from "../ts/llm/decoder.ts";
import { Metadata } from "../ts/llm/metadata.ts";
import { type Tokenizer, loadTokenizer } from "../ts/llm/tokenizer.ts";
import { runArch } from "./corpus/arch.ts";
import { nameOf, readManifest } from "./corpus/manifest.ts";
import { encodeStage, loadStage, stages } from "./corpus/stages.ts";
import { dataDir, describeWith, readData, readJson } from "./data.ts";
import { countVocab, vocabCases, vocabNames, vocabTokenizer } from "./vocab_cases.ts";

function tokenizerOf(bytes: Uint8Array): Tokenizer {
  return loadTokenizer(new Metadata(parseGguf(bytes).metadata));
}

describeWith("vocab", "real vocabularies", () => {
  /** Texts that come back: all from SentencePiece; other kinds lose at least nothing that llama.cpp keeps. */
  const least: Record<string, number> = { llama: 46, gpt2: 44, bert: 4 };

  it.each(vocabNames())("%s gives llama.cpp's ids for all texts", (name) => {
    const { texts, encoded, decoded, wrong } = countVocab(name);
    expect(wrong).toEqual([]);
    expect([texts, encoded]).toEqual([46, 46]);
    expect(decoded).toBeGreaterThanOrEqual(least[vocabTokenizer(name).model]!);
  });

  it("streamed token by token, emoji and CJK join to the text without U+FFFD", () => {
    for (const name of vocabNames().filter((n) => !n.includes("bert"))) {
      const tokenizer = vocabTokenizer(name);
      for (const { text, ids } of vocabCases(name)) {
        const decoder = new StreamDecoder(tokenizer, { atStart: true });
        const parts = ids.map((id) => decoder.push(id));
        expect(parts.join("") + decoder.flush(), name).toBe(text);
        expect(parts.join("").includes("\ufffd")).toBe(text.includes("\ufffd"));
      }
    }
  });
});

describeWith("models", "stories260K", () => {
  interface Reference {
    readonly gen: readonly {
      readonly prompt: string;
      readonly tokens: readonly number[];
      readonly text: string;
      readonly steps: readonly { readonly id: number }[];
    }[];
    readonly tok: readonly { readonly text: string; readonly tokens_with_bos: readonly number[] }[];
  }
  const reference = readJson<Reference>("models", "stories260K/reference.json");
  const file = parseGguf(readData("models", "stories260K/stories260K-f32.gguf"));
  const tokenizer = loadTokenizer(new Metadata(file.metadata));

  it.each(reference.tok.map((t) => [t.text, t.tokens_with_bos] as const))(
    "encodes %j as llama.cpp does",
    (text, ids) => {
      expect(tokenizer.encode(text)).toEqual(ids);
    },
  );

  it("a generation decodes to the text that follows the prompt", () => {
    for (const { prompt, tokens, steps, text } of reference.gen) {
      expect(tokenizer.encode(prompt)).toEqual(tokens);
      const decoder = new StreamDecoder(tokenizer);
      expect(steps.map(({ id }) => decoder.push(id)).join("") + decoder.flush()).toBe(text);
    }
  });

  it("has the sizes of its original, and all weights", () => {
    const p = loadParams(new Metadata(file.metadata));
    const expected = {
      nEmbd: 64,
      nLayer: 5,
      nHead: 8,
      nHeadKv: 4,
      nFf: 172,
      nVocab: 512,
      nCtxTrain: 512,
      nRot: 8,
    };
    expect(p).toMatchObject(expected);
    expect(loadTensors(p, file.tensors).size).toBe(file.tensors.length);
  });
});

describeWith("golden", "golden models of all architectures", () => {
  interface Golden {
    readonly arch: string;
    readonly texts: readonly { readonly text: string; readonly ids: readonly number[] }[];
  }
  const names = readdirSync(`${dataDir("golden")}/arch`).filter((name) => name.endsWith(".gguf"));

  it.each(names)("%s: texts get llama.cpp's ids, special tokens included", (name) => {
    const tokenizer = tokenizerOf(readData("golden", `arch/${name}`));
    const { texts } = readJson<Golden>("golden", `arch/${name.replace(".gguf", ".json")}`);
    for (const { text, ids } of texts) expect(tokenizer.encode(text), text).toEqual(ids);
  });

  it.each(names.filter((name) => /^llama-(?!moe)/.test(name)))(
    "%s passes the checks of its architecture",
    (name) => {
      const file = parseGguf(readData("golden", `arch/${name}`));
      expect(loadTensors(loadParams(new Metadata(file.metadata)), file.tensors).size).toBe(
        file.tensors.length,
      );
    },
  );
});

describeWith("corpus", "model-level corpus", () => {
  const entries = readManifest("arch").filter((entry) => entry.expect.stage !== "chat");

  it.each(entries.map((entry) => [nameOf(entry), entry] as const))("%s", async (_, entry) => {
    expect(await runArch(entry, stages)).toBeUndefined();
  });

  it("a broken chat template does not keep a model from loading", () => {
    for (const { file } of readManifest("arch").filter((entry) => entry.expect.stage === "chat")) {
      expect(loadStage(readData("corpus", file!)).encode("hello").length).toBeGreaterThan(1);
    }
  });

  it("text outside of a vocabulary without byte tokens becomes the unknown token", () => {
    const ids = encodeStage(readData("corpus", "arch/tok-spm-no-bytes.gguf"));
    expect(ids).toContain(0);
  });
});

describe("a file without a tokenizer", () => {
  it("is refused by name", () => {
    expect(() => loadTokenizer(new Metadata(new Map()))).toThrow(
      expect.objectContaining({ code: "missing-key" }),
    );
  });
});
