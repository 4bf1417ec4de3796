// Merge rules over characters: blanks, lines, bytes of what is no token, the start token.
import { describe, expect, test } from "vitest";
import { FormatError } from "../ts/errors.ts";
import { loadTokenizer, type Tokenizer } from "../ts/llm/tokenizer.ts";
import { type Fake, metaOf } from "./meta.ts";

const BYTES = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, "0")}>`);
const MERGES = ["a b", "\u2581 ab", "\u2581ab \u00e9", "\u65e5 \u672c", "\n \n", "\u2581 \u2581"];
const CHARACTERS = [..."ab\u00e9\u65e5\u672c\u2581\n"];
const WORDS = [...CHARACTERS, ...MERGES.map((rule) => rule.replace(" ", "")), "\n\n\n"];
const TOKENS = ["<pad>", "<eos>", "<bos>", "<turn>", ...BYTES, ...WORDS];

function tokenizerOf(model: string, more: Record<string, Fake> = {}): Tokenizer {
  const types = TOKENS.map((_, id) => (id < 4 ? 3 : id < 260 ? 6 : 1));
  return loadTokenizer(
    metaOf({
      "tokenizer.ggml.model": model,
      "tokenizer.ggml.tokens": TOKENS,
      "tokenizer.ggml.token_type": Int32Array.from(types),
      "tokenizer.ggml.merges": MERGES,
      "tokenizer.ggml.bos_token_id": 2,
      "tokenizer.ggml.eos_token_id": 1,
      ...more,
    }),
  );
}

const pieces = (t: Tokenizer, text: string, addSpecial = false): string[] =>
  t.encode(text, { addSpecial }).map((id) => t.text(id));

describe("merge rules over characters", () => {
  const gemma = tokenizerOf("gemma4");

  test("blanks are joined to words, characters by rank, no blank is put before", () => {
    expect(pieces(gemma, "ab ab\u00e9")).toEqual(["ab", "\u2581ab\u00e9"]);
    expect(pieces(gemma, "a  b")).toEqual(["a", "\u2581\u2581", "b"]);
    expect(pieces(gemma, "\u65e5\u672c\u65e5")).toEqual(["\u65e5\u672c", "\u65e5"]);
  });

  test("lines are cut apart; a run of newlines that is a token is that token", () => {
    expect(pieces(gemma, "a\nb")).toEqual(["a", "\n", "b"]);
    expect(pieces(gemma, "a\n\n\nb")).toEqual(["a", "\n\n\n", "b"]);
    expect(pieces(gemma, "\n\n\n\n")).toEqual(["\n\n", "\n\n"]);
    const granite = tokenizerOf("gpt2", { "tokenizer.ggml.pre": "granite-embed-multi-311m" });
    expect(pieces(granite, "\n\n\n")).toEqual(["\n\n", "\n"]);
    expect(pieces(granite, "ab ab")).toEqual(["ab", "\u2581ab"]);
  });

  test("a character that is no token is spelt in bytes, and read back", () => {
    expect(pieces(gemma, "a\u{1f600}")).toEqual(["a", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]);
    for (const text of ["a\u{1f600} \u00fc\n\n x", "\u65e5 \u672c\u8a9e", " ab", "\ta"])
      expect(gemma.decode(gemma.encode(text))).toBe(text);
  });

  test("the start token stands before every text, whatever the key says", () => {
    expect(pieces(gemma, "ab", true)).toEqual(["<bos>", "ab"]);
    const said = tokenizerOf("gemma4", { "tokenizer.ggml.add_bos_token": false });
    expect(pieces(said, "ab<turn>", true)).toEqual(["<bos>", "ab", "<turn>"]);
  });

  test("names that are left out are refused by their name", () => {
    for (const pre of ["youtu", "kimi-k2", "afmoe", "chameleon", "jina-v2-zh"]) {
      const refused = { code: "unsupported-tokenizer", message: expect.stringContaining(pre) as unknown };
      expect(() => tokenizerOf("gpt2", { "tokenizer.ggml.pre": pre })).toThrow(FormatError);
      expect(() => tokenizerOf("gpt2", { "tokenizer.ggml.pre": pre })).toThrow(
        expect.objectContaining(refused),
      );
    }
  });
});
