// Byte-pair encoding and WordPiece on made-up vocabularies, against slow references; pre-tokenizer rules word by word.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { preTokenizer } from "../ts/llm/pretokenizer.ts";
import { loadTokenizer, type Tokenizer } from "../ts/llm/tokenizer.ts";
import { type Fake, metaOf } from "./meta.ts";

/** The 256 byte characters in byte order, by the published rule. */
const CHARACTERS = ((): string[] => {
  const printable = (b: number): boolean => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  const others = Array.from({ length: 256 }, (_, b) => b).filter((b) => !printable(b));
  return Array.from({ length: 256 }, (_, b) =>
    String.fromCodePoint(printable(b) ? b : 256 + others.indexOf(b)),
  );
})();

const plain = { addSpecial: false };

/** Token ids: the 256 bytes, then what the merges make, then `more`. */
function bpe(
  merges: readonly string[],
  more: readonly string[] = [],
  keys: Record<string, Fake> = {},
): Tokenizer {
  const made = [...new Set(merges.map((rule) => rule.replace(/(?<=.) /s, "")))];
  const tokens = [...CHARACTERS, ...made, ...more];
  return loadTokenizer(
    metaOf({
      "tokenizer.ggml.model": "gpt2",
      "tokenizer.ggml.pre": "gpt-2",
      "tokenizer.ggml.tokens": tokens,
      "tokenizer.ggml.merges": merges,
      ...keys,
    }),
  );
}

function texts(tokenizer: Tokenizer, text: string): string[] {
  return tokenizer.encode(text, plain).map((id) => tokenizer.text(id));
}

describe("byte-pair encoding", () => {
  test("the rule with the lowest rank is applied first, from the left", () => {
    expect(texts(bpe(["b c", "a b", "ab c"]), "abc")).toEqual(["a", "bc"]);
    expect(texts(bpe(["a b", "b c", "ab c"]), "abc")).toEqual(["abc"]);
    expect(texts(bpe(["a a"]), "aaa")).toEqual(["aa", "a"]);
  });

  test("equals the definition on any word and any order of the rules", () => {
    const rules = ["a b", "b a", "a a", "ab a", "b c", "c ab", "aa b", "bc a", "ab ab"];
    const order = fc.shuffledSubarray(rules, { minLength: rules.length });
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 20 }),
        order,
        (word, merges) => {
          expect(texts(bpe(merges), word)).toEqual(slowMerge(word, merges));
        },
      ),
    );
  });

  test("of equal rules the first counts", () => {
    expect(texts(bpe(["a b", "b c", "a b"]), "abc")).toEqual(["ab", "c"]);
  });

  test("a rule is parted at the first blank that is not its first character", () => {
    expect(() => bpe(["a  b"], ["ab"])).toThrow(expect.objectContaining({ code: "bad-value" }));
    expect(texts(bpe(["Ġ a"]), " a")).toEqual(["Ġa"]);
  });

  test("any text comes back from its ids", () => {
    const tokenizer = bpe(["a b", "Ġ a"]);
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        expect(tokenizer.decode(tokenizer.encode(text, { addSpecial: false, parseSpecial: false }))).toBe(
          text,
        );
      }),
    );
  });

  test("whole words are tokens without rules only where the pre-tokenizer says so", () => {
    expect(texts(bpe(["a b"], ["abc"]), "abc")).toEqual(["ab", "c"]);
    expect(
      texts(
        bpe(["a b"], ["abc"], { "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": false }),
        "abc",
      ),
    ).toEqual(["abc"]);
  });

  test("a byte without a token is left out, or becomes the unknown token where there is one", () => {
    const meta = (keys: Record<string, Fake>): Tokenizer =>
      loadTokenizer(
        metaOf({
          "tokenizer.ggml.model": "gpt2",
          "tokenizer.ggml.tokens": ["a", "b", "?"],
          "tokenizer.ggml.merges": [],
          "tokenizer.ggml.eos_token_id": 2,
          "tokenizer.ggml.bos_token_id": 2,
          ...keys,
        }),
      );
    expect(meta({}).encode("axb")).toEqual([0, 1]);
    expect(meta({ "tokenizer.ggml.unknown_token_id": 2 }).encode("axb")).toEqual([0, 2, 1]);
  });

  test("the start token is added by key, or by the pre-tokenizer's habit", () => {
    expect(bpe([]).encode("")).toEqual([]);
    expect(bpe([], [], { "tokenizer.ggml.add_bos_token": true }).encode("")).toEqual([11]);
    expect(bpe([], [], { "tokenizer.ggml.pre": "tekken" }).encode("")).toEqual([11]);
    expect(bpe([], [], { "tokenizer.ggml.pre": "glm4" }).ids.bos).toBe(-1);
  });

  test("special tokens are found before words are made", () => {
    const tokenizer = bpe([], ["<|im_start|>"], {
      "tokenizer.ggml.token_type": Int32Array.from({ length: 257 }, (_, i) => (i === 256 ? 3 : 1)),
    });
    expect(tokenizer.encode("a<|im_start|>")).toEqual([97, 256]);
    expect(tokenizer.encode("<|im_start|>", { parseSpecial: false })).toHaveLength(12);
  });

  test("a long word takes no quadratic time", () => {
    expect(bpe(["a a"]).encode("a".repeat(3e5), plain)).toHaveLength(150_000);
  });

  const bad: [string, Record<string, Fake>, string][] = [
    ["no merges", { "tokenizer.ggml.merges": undefined }, "missing-key"],
    ["merges that are numbers", { "tokenizer.ggml.merges": Int32Array.of(1) }, "bad-type"],
    ["a rule without a blank", { "tokenizer.ggml.merges": ["ab"] }, "bad-value"],
    ["an empty rule", { "tokenizer.ggml.merges": [""] }, "bad-value"],
    ["a rule whose result is no token", { "tokenizer.ggml.merges": ["a b"] }, "bad-value"],
    ["a rule of parts that are no tokens", { "tokenizer.ggml.merges": ["aa b"] }, "bad-value"],
    ["an unknown pre-tokenizer", { "tokenizer.ggml.pre": "quux" }, "unsupported-tokenizer"],
    ["a pre-tokenizer that is a number", { "tokenizer.ggml.pre": 1 }, "bad-type"],
  ];
  test.each(bad)("%s: refused", (_, keys, code) => {
    expect(() => bpe([], [], keys)).toThrow(expect.objectContaining({ name: "FormatError", code }));
  });
});

/** By the definition: the rule of lowest rank that fits anywhere, at its leftmost place. */
function slowMerge(word: string, merges: readonly string[]): string[] {
  const symbols = [...word];
  for (;;) {
    const at = merges
      .map((rule) =>
        symbols.findIndex((s, i) => i + 1 < symbols.length && `${s} ${symbols[i + 1]!}` === rule),
      )
      .find((i) => i >= 0);
    if (at === undefined) return symbols;
    symbols.splice(at, 2, symbols[at]! + symbols[at + 1]!);
  }
}

describe("pre-tokenizers", () => {
  const words = (pre: string, text: string): string[] =>
    preTokenizer(metaOf({ "tokenizer.ggml.pre": pre })).words(text);

  const cases: [pre: string, text: string, words: string[]][] = [
    ["gpt-2", "I'm 12 years  old!", ["I", "'m", " 12", " years", " ", " old", "!"]],
    ["gpt-2", "I'M", ["I", "'", "M"]],
    ["llama-bpe", "I'M 12345", ["I", "'M", " ", "123", "45"]],
    ["qwen2", "a 123\n\n b", ["a", " ", "1", "2", "3", "\n\n", " b"]],
    ["qwen35", "e\u0301a", ["e\u0301a"]],
    ["gpt-4o", "HelloWorld don't", ["Hello", "World", " don't"]],
    ["tekken", "HelloWorld 12", ["Hello", "World", " ", "1", "2"]],
    ["starcoder", "a 12", ["a", " ", "1", "2"]],
    ["falcon", "x`1234", ["x", "`", "123", "4"]],
    ["deepseek-llm", "a 日本 b  ", ["a", " ", "日本", " b", "  "]],
    ["deepseek-coder", "a1\nb", ["a", "1", "\n", "b"]],
    ["deepseek-v3", "日a 1234", ["日", "a", " ", "123", "4"]],
    ["bloom", "a, b", ["a", ",", " b"]],
    ["superbpe", "1234567", ["1", "234", "567"]],
    ["tiny_aya", "1234567 x", ["1", "234", "567", " x"]],
    ["tiny_aya", "1234567x", ["123", "456", "7", "x"]],
    ["default", "a!1234", ["a", "!", "123", "4"]],
    ["laguna", "a\nb", ["a", "\n", "b"]],
    ["jais-2", "a    b", ["a", "  ", " ", " b"]],
    ["exaone-moe", "a b 1", ["a b", " ", "1"]],
    ["bailingmoe", "don'T", ["don", "'T"]],
    ["minicpm5", "1234", ["123", "4"]],
    ["seed-coder", "a!\nb", ["a", "!", "\n", "b"]],
  ];
  test.each(cases)("%s cuts %j", (pre, text, expected) => {
    expect(words(pre, text)).toEqual(expected);
  });

  test("U+0085 is white space, U+FEFF is not", () => {
    expect(words("gpt-2", "a\u0085\u0085b")).toEqual(["a", "\u0085", "\u0085", "b"]);
    expect(words("gpt-2", "a \ufeff")).toEqual(["a", " \ufeff"]);
  });

  const all = cases.map(([pre]) => pre);
  test("words joined are the text, whatever the rule", () => {
    fc.assert(
      fc.property(fc.constantFrom(...all), fc.string({ unit: "grapheme" }), (pre, text) => {
        expect(words(pre, text).join("")).toBe(text);
        expect(words(pre, text)).not.toContain("");
      }),
    );
  });

  test("long texts are cut where words end, and lose nothing", () => {
    const text = "word ".repeat(3e5);
    expect(new Set(words("gpt-2", text))).toEqual(new Set(["word", " word", " "]));
    const emoji = "😀".repeat(6e5);
    expect(words("llama-bpe", emoji).join("")).toBe(emoji);
    expect(words("llama-bpe", emoji).join("|")).not.toMatch(/\p{Cs}/u);
  });

  test("runs of white space or digits take no quadratic time", () => {
    for (const pre of ["gpt-2", "llama-bpe", "deepseek-llm", "tiny_aya", "superbpe"]) {
      expect(words(pre, " ".repeat(1e5) + "a").join("")).toHaveLength(100_001);
      expect(words(pre, "1".repeat(1e5) + "a").join("")).toHaveLength(100_001);
    }
  });
});

describe("WordPiece", () => {
  const TOKENS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "▁hello",
    "▁un",
    "want",
    "ed",
    "▁,",
    "▁ca",
    "fe",
    "▁日",
    "▁it",
    "▁'",
    "▁s",
    "s",
    "▁$",
  ];
  const bert = (keys: Record<string, Fake> = {}): Tokenizer =>
    loadTokenizer(
      metaOf({
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": Int32Array.from(TOKENS, (_, id) => (id < 4 ? 3 : 1)),
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        ...keys,
      }),
    );
  const pieces = (text: string, keys: Record<string, Fake> = {}): string[] => texts(bert(keys), text);

  test("longest parts first, lower case, without accents", () => {
    expect(pieces("Unwanted CAFÉ")).toEqual(["▁un", "want", "ed", "▁ca", "fe"]);
  });

  test("punctuation, ASCII symbols and ideographs stand alone", () => {
    expect(pieces("hello,日日$")).toEqual(["▁hello", "▁,", "▁日", "▁日", "▁$"]);
  });

  test("a word with an unknown part is one unknown token", () => {
    expect(pieces("unwantedx hello")).toEqual(["[UNK]", "▁hello"]);
  });

  test("case and accents are kept when the file says so", () => {
    expect(pieces("Hello", { "tokenizer.ggml.normalizer.lowercase": false })).toEqual(["[UNK]"]);
    expect(pieces("hello", { "tokenizer.ggml.normalizer.lowercase": false })).toEqual(["▁hello"]);
    expect(pieces("café", { "tokenizer.ggml.normalizer.strip_accents": false })).toEqual(["[UNK]"]);
  });

  test("control characters vanish inside of a word, white space ends it", () => {
    expect(pieces("hel\u0000\u200blo\u00a0un\u3000it")).toEqual(["▁hello", "▁un", "▁it"]);
  });

  test("a text stands between start and separator token, also an empty one", () => {
    expect(bert().encode("hello")).toEqual([2, 4, 3]);
    expect(bert().encode("")).toEqual([2, 3]);
    expect(bert({ "tokenizer.ggml.add_bos_token": false }).encode("")).toEqual([2, 3]);
  });

  test("decoding puts blanks where words begin, not before punctuation", () => {
    expect(bert().decode(bert().encode("hello, it's unwanted"))).toBe("hello, it's unwanted");
  });

  test("without a separator the file is refused", () => {
    const code = expect.objectContaining({ code: "token-range" }) as Error;
    expect(() => bert({ "tokenizer.ggml.seperator_token_id": undefined })).toThrow(code);
    expect(() => bert({ "tokenizer.ggml.bos_token_id": undefined })).toThrow(code);
  });
});
