// Unigram vocabularies: the best of all segmentations, the compiled normaliser, the frame, bad tables.
import { describe, expect, test } from "vitest";
import { FormatError } from "../ts/errors.ts";
import { Charsmap } from "../ts/llm/charsmap.ts";
import { loadTokenizer, type Tokenizer } from "../ts/llm/tokenizer.ts";
import { bytesOf, textOf } from "../ts/llm/utf8.ts";
import { stream } from "./core.ts";
import { type Fake, metaOf } from "./meta.ts";

type Pieces = readonly (readonly [text: string, score: number, type?: number])[];

/** <pad> </s> <unk> <s>, then the pieces. */
function tokenizerOf(pieces: Pieces, more: Record<string, Fake> = {}): Tokenizer {
  const all: Pieces = [["<pad>", 0, 3], ["</s>", 0, 3], ["<unk>", 0, 2], ["<s>", 0, 3], ...pieces];
  return loadTokenizer(
    metaOf({
      "tokenizer.ggml.model": "t5",
      "tokenizer.ggml.tokens": all.map(([text]) => text),
      "tokenizer.ggml.scores": Float32Array.from(all, ([, score]) => score),
      "tokenizer.ggml.token_type": Int32Array.from(all, ([, , type = 1]) => type),
      ...more,
    }),
  );
}

const texts = (t: Tokenizer, ids: readonly number[]): string[] => ids.map((id) => t.text(id));
const pieces = (t: Tokenizer, text: string): string[] => texts(t, t.encode(text, { addSpecial: false }));

const PREFIX = { "tokenizer.ggml.add_space_prefix": true };
const MERGED = { ...PREFIX, "tokenizer.ggml.remove_extra_whitespaces": true };

describe("segmentation", () => {
  const few: Pieces = [
    ["a", -3],
    ["b", -3],
    ["ab", -4],
    ["abc", -20],
    ["c", -3],
    ["\u2581", -1],
    ["\u2581a", -2.5],
  ];

  test("the greatest sum of scores wins over the longest token", () => {
    expect(pieces(tokenizerOf(few), "abc")).toEqual(["ab", "c"]);
    expect(pieces(tokenizerOf(few, PREFIX), "abc")).toEqual(["\u2581", "ab", "c"]);
    expect(pieces(tokenizerOf(few, PREFIX), "ac")).toEqual(["\u2581a", "c"]);
  });

  test("what no token has is one unknown token, however long it is", () => {
    const t = tokenizerOf(few);
    expect(pieces(t, "a\u00e9\u65e5\ud83d\ude00b")).toEqual(["a", "<unk>", "b"]);
    expect(pieces(t, "zz")).toEqual(["<unk>"]);
  });

  test("an unused token is text, a control token is not", () => {
    const t = tokenizerOf([...few, ["ac", -1, 5], ["ca", -1, 3]]);
    expect(pieces(t, "ac")).toEqual(["ac"]);
    expect(texts(t, t.encode("ca", { addSpecial: false, parseSpecial: false }))).toEqual(["c", "a"]);
  });

  test("random vocabularies: as good as the best of all segmentations", () => {
    const next = stream(77);
    const below = (n: number): number => Math.floor(((next() + 1) / 2) * n);
    const word = (n: number): string => Array.from({ length: n }, () => "abc"[below(3)]).join("");
    for (let round = 0; round < 60; round++) {
      const some = new Map<string, number>(["a", "b"].map((c) => [c, -5]));
      for (let i = 0; i < 12; i++) some.set(word(1 + below(4)), -1 - below(9));
      const t = tokenizerOf([...some]);
      const least = Math.min(...some.values());
      const text = word(1 + below(12));
      const got = pieces(t, text);
      // neighbours that are unknown are one token: counted by characters here
      const unknown = [...text].length - got.filter((p) => p !== "<unk>").join("").length;
      const sum = got.reduce((s, p) => s + (some.get(p) ?? 0), 0) + unknown * (least - 10);
      expect(sum).toBeCloseTo(bestSum(text, some, least - 10), 6);
    }
  });
});

// Every way to cut a text, by recursion. A character that is a token is never unknown.
function bestSum(text: string, scores: ReadonlyMap<string, number>, unknown: number): number {
  if (text === "") return 0;
  let best = scores.has(text[0]!) ? -Infinity : unknown + bestSum(text.slice(1), scores, unknown);
  for (let n = 1; n <= Math.min(4, text.length); n++) {
    const score = scores.get(text.slice(0, n));
    if (score !== undefined) best = Math.max(best, score + bestSum(text.slice(n), scores, unknown));
  }
  return best;
}

/** A compiled table of these replacements, built node by node: texts of up to a few bytes. */
function compiled(rules: Readonly<Record<string, string>>): Uint8Array {
  const units: number[] = [0];
  const used = new Set([0]);
  const bases = new Set<number>();
  const replaced: number[] = [];
  const keys = Object.entries(rules).map(([from, to]) => {
    const place = replaced.length;
    replaced.push(...bytesOf(to), 0);
    return { bytes: [...bytesOf(from)], place };
  });
  const build = (node: number, depth: number, here: typeof keys): void => {
    const labels = new Set(here.map(({ bytes }) => bytes[depth] ?? 0));
    let base = 1;
    while (bases.has(base) || [...labels].some((label) => used.has(base ^ label))) base++;
    bases.add(base); // a label alone does not tell parents with the same base apart
    const link = node ^ base;
    units[node] = (units[node] ?? 0) | (link << 10);
    for (const label of labels) used.add(base ^ label);
    for (const label of labels) {
      const child = base ^ label;
      if (label === 0) {
        units[child] = (0x80000000 | here.find(({ bytes }) => bytes.length === depth)!.place) >>> 0;
        units[node]! |= 0x100;
        continue;
      }
      units[child] = label;
      build(
        child,
        depth + 1,
        here.filter(({ bytes }) => bytes[depth] === label),
      );
    }
  };
  build(0, 0, keys);
  const array = Uint32Array.from({ length: Math.max(...used) + 1 }, (_, i) => units[i] ?? 0x800000ff);
  return Uint8Array.from([
    ...new Uint8Array(Uint32Array.of(4 * array.length).buffer),
    ...new Uint8Array(array.buffer),
    ...replaced,
  ]);
}

const RULES = { "\u00c4": "a", "\u00e4": "A", "\u0301": "", "\t": " ", "\u3000": " ", fi: "FI", f: "F" };

describe("the compiled normaliser", () => {
  const map = new Charsmap(compiled(RULES));

  test("the longest key at a place is found, and nothing else", () => {
    const at = (text: string, i = 0): [number, string] | undefined => {
      const found = map.longest(bytesOf(text), i);
      return found && [found.length, textOf(found.text)];
    };
    for (const [from, to] of Object.entries(RULES))
      expect(at(`${from}x`)).toEqual([bytesOf(from).length, to]);
    expect(at("fix")).toEqual([2, "FI"]);
    expect(at("fx")).toEqual([1, "F"]);
    expect(at("xfi", 1)).toEqual([2, "FI"]);
    expect(at("x")).toBeUndefined();
    expect(at("\u00c5")).toBeUndefined();
    expect(at("")).toBeUndefined();
  });

  test("texts pass through it before they are cut, blanks after that", () => {
    const letters = [..."aAFIb"].map((c) => [c, -2] as const);
    const vocab: Pieces = [...letters, ["\u2581", -1], ["\u2581\u2581", -1]];
    const more = { "tokenizer.ggml.precompiled_charsmap": compiled(RULES) };
    const t = tokenizerOf(vocab, more);
    expect(pieces(t, "\u00c4\u00e4\u0301fib")).toEqual(["a", "A", "FI", "b"].flatMap((p) => [...p]));
    expect(pieces(t, "a\t\u3000b")).toEqual(["a", "\u2581\u2581", "b"]);
    const merged = tokenizerOf(vocab, { ...more, ...MERGED });
    expect(pieces(merged, "  a\t \u3000b  ")).toEqual(["\u2581", "a", "\u2581", "b"]);
  });

  test("tables whose parts do not fit are refused", () => {
    const good = compiled(RULES);
    for (const bytes of [good.subarray(0, 3), good.subarray(0, 40), good.subarray(0, good.length - 1)])
      expect(() => new Charsmap(bytes)).toThrow(FormatError);
    const long = Uint8Array.from([4, 0, 0, 0, 0, 0, 0, 0, ...new Array<number>(300).fill(65), 0]);
    expect(() => new Charsmap(long)).toThrow(/does not end/);
  });

  test("random bits end every look-up inside of the table", () => {
    const next = stream(5);
    const byte = (): number => Math.floor(((next() + 1) / 2) * 256);
    for (let round = 0; round < 200; round++) {
      const array = Array.from({ length: 4 * (1 + (round % 64)) }, byte);
      const size = Uint32Array.of(array.length);
      const bytes = [...new Uint8Array(size.buffer), ...array, 65, 66, 0, 67, 0];
      const broken = new Charsmap(Uint8Array.from(bytes));
      const text = Uint8Array.from({ length: 50 }, byte);
      for (let at = 0; at < 50; at++) {
        const found = broken.longest(text, at);
        if (found === undefined) continue;
        expect(found.length).toBeGreaterThan(0);
        expect(found.length).toBeLessThanOrEqual(50 - at);
        expect(found.text.length).toBeLessThan(3);
      }
    }
  });
});

describe("the frame", () => {
  const words: Pieces = [
    ["\u2581hello", -3],
    ["\u2581world", -4],
    ["<mask>", 0, 4],
    ["!", -2],
  ];

  test("an end token by default; start and end as XLM-RoBERTa's files want them", () => {
    const t5 = tokenizerOf(words, MERGED);
    expect(texts(t5, t5.encode("hello  world!"))).toEqual(["\u2581hello", "\u2581world", "!", "</s>"]);
    const xlmr = tokenizerOf(words, {
      ...MERGED,
      "tokenizer.ggml.bos_token_id": 3,
      "tokenizer.ggml.add_bos_token": true,
    });
    const ids = xlmr.encode("hello<mask> world");
    expect(texts(xlmr, ids)).toEqual(["<s>", "\u2581hello", "<mask>", "\u2581world", "</s>"]);
    expect(xlmr.decode(ids)).toBe("hello<mask> world");
    expect(xlmr.encode("")).toEqual([3, 1]);
  });

  test("files without an unknown token or with endless texts are refused", () => {
    const none = { "tokenizer.ggml.unknown_token_id": 0xffffffff };
    const code = (name: string): unknown => expect.objectContaining({ code: name }) as unknown;
    expect(() => tokenizerOf(words, none)).toThrow(code("unsupported-tokenizer"));
    expect(() => tokenizerOf([["a".repeat(2000), -1]])).toThrow(code("bad-value"));
    expect(() => tokenizerOf(words, { "tokenizer.ggml.scores": Float32Array.of(1) })).toThrow(
      code("vocab-mismatch"),
    );
  });
});
