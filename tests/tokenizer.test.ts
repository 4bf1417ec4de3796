// Tokenizers: llama.cpp's own ids on real vocabularies, a slow reference on made-up ones, and what is refused.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GraphError } from "../ts/errors.ts";
import { loadTokenizer, type Tokenizer } from "../ts/llm/tokenizer.ts";
import { type Fake, metaOf, spmMeta } from "./meta.ts";

const FIRST = 259;
const PIECES = ["▁", "a", "b", "c", "ab", "▁a", "bc", "abc", "▁▁", "é", "aa", "▁ab", "c▁a"];

function spm(pieces: readonly (string | Uint8Array)[] = PIECES, more: Record<string, Fake> = {}): Tokenizer {
  return loadTokenizer(metaOf(spmMeta(pieces, more)));
}

const ids = (...pieces: string[]): number[] => pieces.map((piece) => FIRST + PIECES.indexOf(piece));
const plain = { addSpecial: false };

/** Kinds for {@link spmMeta} tokens, with some changed. */
function types(n: number, changed: Record<number, number>): Int32Array {
  return Int32Array.from(
    { length: FIRST + n },
    (_, id) => changed[id] ?? (id === 0 ? 2 : id < 3 ? 3 : id < FIRST ? 6 : 1),
  );
}

/** SentencePiece by its definition: again and again the best pair (equal scores: the leftmost), quadratic. */
function slowSplit(text: string, pieces: readonly string[], scores: readonly number[]): string[] {
  const symbols = [...text];
  for (;;) {
    let best = -1;
    let bestScore = -Infinity;
    for (let i = 0; i + 1 < symbols.length; i++) {
      const at = pieces.indexOf(symbols[i]! + symbols[i + 1]!);
      if (at < 0 || scores[at]! <= bestScore) continue;
      best = i;
      bestScore = scores[at]!;
    }
    if (best < 0) return symbols;
    symbols.splice(best, 2, symbols[best]! + symbols[best + 1]!);
  }
}

describe("SentencePiece", () => {
  test("the pair with the best score is joined first", () => {
    expect(spm().encode("abc", plain)).toEqual(ids("▁", "abc"));
    expect(spm(PIECES, { "tokenizer.ggml.add_space_prefix": false }).encode("abc", plain)).toEqual(
      ids("abc"),
    );
  });

  test("pairs with equal scores are joined from the left, whatever their order in the vocabulary", () => {
    const scores = new Float32Array(FIRST + 4);
    const tokenizer = spm(["x", "y", "yx", "xy"], {
      "tokenizer.ggml.scores": scores,
      "tokenizer.ggml.add_space_prefix": false,
    });
    expect(tokenizer.encode("xyx", plain)).toEqual([FIRST + 3, FIRST]);
    expect(tokenizer.encode("yxy", plain)).toEqual([FIRST + 2, FIRST + 1]);
  });

  test("equals the definition on any text, with any scores", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 25 });
    const scores = fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 12, maxLength: 12 });
    const pieces = ["a", "b", "c", "ab", "bc", "ca", "aa", "abc", "bca", "aab", "cc", "abcabc"];
    fc.assert(
      fc.property(text, scores, (t, s) => {
        const all = new Float32Array(FIRST + 12);
        all.set(s, FIRST);
        const tokenizer = spm(pieces, {
          "tokenizer.ggml.scores": all,
          "tokenizer.ggml.add_space_prefix": false,
        });
        const expected = slowSplit(t, pieces, s).map((symbol) => FIRST + pieces.indexOf(symbol));
        expect(tokenizer.encode(t, plain)).toEqual(expected);
      }),
    );
  });

  test("a character without a token becomes its bytes", () => {
    expect(spm().encode("€é", plain)).toEqual([...ids("▁"), 3 + 0xe2, 3 + 0x82, 3 + 0xac, ...ids("é")]);
  });

  test("without byte tokens it becomes one unknown token", () => {
    const meta = {
      ...spmMeta([]),
      "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "▁", "a"],
      "tokenizer.ggml.scores": undefined,
    };
    const tokenizer = loadTokenizer(
      metaOf({ ...meta, "tokenizer.ggml.token_type": Int32Array.of(2, 3, 3, 1, 1) }),
    );
    expect(tokenizer.encode("a€\u0000", plain)).toEqual([3, 4, 0, 0]);
  });

  test("lone surrogates are encoded as U+FFFD", () => {
    const replaced = [3 + 0xef, 3 + 0xbf, 3 + 0xbd];
    expect(spm().encode("\ud83d", plain)).toEqual([...ids("▁"), ...replaced]);
    expect(spm().encode("\ude00a", plain)).toEqual([...ids("▁"), ...replaced, ...ids("a")]);
  });

  test("an empty text gives the added tokens only", () => {
    expect(spm().encode("")).toEqual([1]);
    expect(spm(PIECES, { "tokenizer.ggml.add_eos_token": true }).encode("")).toEqual([1, 2]);
    expect(spm().encode("", plain)).toEqual([]);
  });

  test("any text comes back from its ids, with and without a start token", () => {
    const tokenizer = spm();
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.boolean(), (text, addSpecial) => {
        fc.pre(!text.includes("▁"));
        expect(tokenizer.decode(tokenizer.encode(text, { addSpecial, parseSpecial: false }))).toBe(text);
      }),
    );
  });

  test("a text of a megabyte and one of equal letters are encoded without recursion or overflow", () => {
    const tokenizer = spm();
    expect(tokenizer.encode("a".repeat(1e6), plain)).toHaveLength(500_001);
    expect(tokenizer.encode("ab c".repeat(2.5e5), plain).length).toBeGreaterThan(1e5);
  });
});

describe("special tokens in text", () => {
  const N = PIECES.length;
  const user = ["<user>", "<user>x", "[mark]"];
  const tokens = (more: Record<string, Fake> = {}): Tokenizer =>
    spm([...PIECES, ...user], {
      "tokenizer.ggml.token_type": types(N + 3, { [FIRST + N]: 4, [FIRST + N + 1]: 4, [FIRST + N + 2]: 3 }),
      ...more,
    });
  const [USER, USERX, MARK] = [FIRST + N, FIRST + N + 1, FIRST + N + 2];

  test("control texts are tokens only when asked for, user-defined ones always", () => {
    expect(tokens().encode("[mark]<user>", { addSpecial: false })).toEqual([MARK, USER]);
    const safe = tokens().encode("[mark]<user>", { addSpecial: false, parseSpecial: false });
    expect(safe).not.toContain(MARK);
    expect(safe.at(-1)).toBe(USER);
  });

  test("the longest text wins", () => {
    expect(tokens().encode("<user>x<user>", plain)).toEqual([USERX, USER]);
  });

  test("a blank is put before the first text and after every special token, not between others", () => {
    expect(tokens().encode("a<user>a", plain)).toEqual([...ids("▁a"), USER, ...ids("▁a")]);
    expect(tokens({ "tokenizer.ggml.add_space_prefix": false }).encode("a<user>a", plain)).toEqual([
      ...ids("a"),
      USER,
      ...ids("a"),
    ]);
  });

  test("overlapping matches are taken longest first, then from the left, as by the slow rule", () => {
    const names = ["xx", "xxx", "xy", "yx", "xyxy"];
    const tokenizer = spm(["x", "y", ...names], {
      "tokenizer.ggml.token_type": types(7, Object.fromEntries(names.map((_, i) => [FIRST + 2 + i, 4]))),
      "tokenizer.ggml.add_space_prefix": false,
    });
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("x", "y"), maxLength: 20 }), (text) => {
        expect(tokenizer.encode(text, plain)).toEqual(slowCut(text, names));
      }),
    );
    function slowCut(text: string, list: readonly string[]): number[] {
      let parts: (string | number)[] = [text];
      for (const name of [...list].sort((a, b) => b.length - a.length)) {
        parts = parts.flatMap((part) =>
          typeof part === "number"
            ? [part]
            : part
                .split(name)
                .flatMap((piece, i) => (i === 0 ? [piece] : [FIRST + 2 + list.indexOf(name), piece])),
        );
      }
      return parts.flatMap((part) =>
        typeof part === "number" ? [part] : [...part].map((c) => FIRST + (c === "x" ? 0 : 1)),
      );
    }
  });

  test("phi-3 swallows white space after its special tokens", () => {
    const phi = tokens({ "general.name": "Phi-3 mini" });
    expect(phi.encode("[mark] \n a", plain)).toEqual([MARK, ...ids("▁a")]);
    expect(phi.encode("<s> a", plain)).toEqual([1, ...ids("▁", "▁a")]);
  });

  test("many special tokens in a long text take no quadratic time", () => {
    expect(tokens().encode("<user>x[mark]".repeat(1e5), plain)).toHaveLength(2e5);
  });
});

describe("decoding", () => {
  test("control and unknown tokens print nothing, unless asked for", () => {
    const list = [1, ...ids("▁a", "b"), 2];
    expect(spm().decode(list)).toBe("ab");
    expect(spm().decode(list, { special: true })).toBe("<s> ab</s>");
  });

  test("a user-defined token prints its text as it is, an unused one nothing", () => {
    const tokenizer = spm(["a▁b", "c"], {
      "tokenizer.ggml.token_type": types(2, { [FIRST]: 4, [FIRST + 1]: 5 }),
    });
    expect(tokenizer.decode([FIRST, FIRST + 1])).toBe("a▁b");
  });

  test("ids that the vocabulary has not are refused", () => {
    for (const id of [-1, 0.5, NaN, FIRST + PIECES.length, 2 ** 32]) {
      expect(() => spm().decode([id]), `${id}`).toThrow(
        expect.objectContaining({ name: "GraphError", code: "token-range" }),
      );
      expect(() => spm().piece(id)).toThrow(GraphError);
    }
  });

  test("misspelt options are refused", () => {
    expect(() => spm().encode("a", { addBos: true } as object)).toThrow(TypeError);
    expect(() => spm().decode([], { skipSpecial: true } as object)).toThrow(TypeError);
  });
});

describe("odd vocabularies", () => {
  test("two ids for one text: the first is used, both print it", () => {
    const tokenizer = spm([...PIECES, "ab"], { "tokenizer.ggml.add_space_prefix": false });
    expect(tokenizer.encode("ab", plain)).toEqual(ids("ab"));
    expect(tokenizer.decode([FIRST + PIECES.length])).toBe("ab");
  });

  test("an empty token is never found, also as a special one", () => {
    const tokenizer = spm(["", "a"], {
      "tokenizer.ggml.token_type": types(2, { [FIRST]: 4 }),
      "tokenizer.ggml.add_space_prefix": false,
    });
    expect(tokenizer.encode("aa", plain)).toEqual([FIRST + 1, FIRST + 1]);
    expect(tokenizer.decode([FIRST])).toBe("");
  });

  test("a token that is a piece of a character keeps its bytes", () => {
    const tokenizer = spm([Uint8Array.of(0xe2, 0x82), "▁"]);
    expect(tokenizer.decode([FIRST, 3 + 0xac])).toBe("€");
    expect(tokenizer.decode([FIRST])).toBe("\ufffd");
  });

  const bad: [string, Record<string, Fake>, string][] = [
    ["no model", { "tokenizer.ggml.model": undefined }, "missing-key"],
    ["a model that is a number", { "tokenizer.ggml.model": 1 }, "bad-type"],
    ["a model nobody knows", { "tokenizer.ggml.model": "quux" }, "unsupported-tokenizer"],
    ["no tokens", { "tokenizer.ggml.tokens": undefined }, "missing-key"],
    ["an empty token list", { "tokenizer.ggml.tokens": [] }, "vocab-mismatch"],
    ["scores of bytes", { "tokenizer.ggml.scores": new Uint8Array(FIRST + 1) }, "bad-type"],
    ["too few scores", { "tokenizer.ggml.scores": new Float32Array(FIRST) }, "vocab-mismatch"],
    ["types of bytes", { "tokenizer.ggml.token_type": new Uint8Array(FIRST + 1) }, "bad-type"],
    ["too few types", { "tokenizer.ggml.token_type": new Int32Array(7) }, "vocab-mismatch"],
    ["a negative type", { "tokenizer.ggml.token_type": types(1, { 5: -1 }) }, "bad-value"],
    ["a type of 7", { "tokenizer.ggml.token_type": types(1, { 5: 7 }) }, "bad-value"],
    ["a start token past the end", { "tokenizer.ggml.bos_token_id": FIRST + 1 }, "token-range"],
    ["an unknown token past the end", { "tokenizer.ggml.unknown_token_id": FIRST + 1 }, "token-range"],
    ["a negative end token", { "tokenizer.ggml.eos_token_id": { type: 5, value: -2 } }, "token-range"],
    [
      "a required start token that is none",
      { "tokenizer.ggml.bos_token_id": 2 ** 32 - 1, "tokenizer.ggml.add_bos_token": true },
      "token-range",
    ],
    [
      "default ids past a tiny vocabulary",
      {
        "tokenizer.ggml.tokens": ["a", "b"],
        "tokenizer.ggml.scores": undefined,
        "tokenizer.ggml.token_type": undefined,
      },
      "token-range",
    ],
  ];
  test.each(bad)("%s is refused", (_, more, code) => {
    expect(() => spm(["▁"], more)).toThrow(expect.objectContaining({ name: "FormatError", code }));
  });

  test("an id of 2^32-1 means none", () => {
    const tokenizer = spm(PIECES, {
      "tokenizer.ggml.eos_token_id": 2 ** 32 - 1,
      "tokenizer.ggml.bos_token_id": 2 ** 32 - 1,
    });
    expect([tokenizer.ids.eos, tokenizer.ids.bos, tokenizer.addBos]).toEqual([-1, -1, false]);
    expect(tokenizer.encode("a")).toEqual(ids("▁a"));
  });
});

describe("end of generation", () => {
  test("by role and by well-known text, which then prints nothing", () => {
    const tokenizer = spm(["▁", "<|im_end|>", "<end_of_turn>"], { "tokenizer.ggml.eos_token_id": 2 });
    expect([2, FIRST + 1, FIRST + 2].every((id) => tokenizer.isEog(id))).toBe(true);
    expect([0, 1, FIRST].some((id) => tokenizer.isEog(id))).toBe(false);
    expect(tokenizer.decode([FIRST + 1])).toBe("");
    expect(tokenizer.isControl(FIRST + 1)).toBe(true);
  });

  test("harmony: <|end|> closes a channel and is printed", () => {
    const names = ["<|return|>", "<|call|>", "<|end|>", "<|channel|>"];
    const tokenizer = spm(names, {
      "tokenizer.ggml.token_type": types(4, { [FIRST]: 3, [FIRST + 1]: 3, [FIRST + 2]: 3, [FIRST + 3]: 3 }),
    });
    expect(names.map((_, i) => tokenizer.isEog(FIRST + i))).toEqual([true, true, false, false]);
    expect(tokenizer.decode([FIRST + 2, FIRST + 3])).toBe("<|end|><|channel|>");
  });
});
