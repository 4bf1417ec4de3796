// Streaming text: whole characters, no control tokens; stop strings found however the text is cut.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GraphError } from "../ts/errors.ts";
import { StreamDecoder, type Pieces } from "../ts/llm/decoder.ts";
import { StopFilter } from "../ts/llm/stop.ts";

/** Token i prints parts[i]; an empty part is a control token. */
function pieces(parts: readonly Uint8Array[], addSpacePrefix = false): Pieces {
  return { addSpacePrefix, piece: (id) => parts[id]! };
}

function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Cuts bytes into parts of the given lengths, in turn. */
function cut(bytes: Uint8Array, lengths: readonly number[]): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const n = lengths[i % lengths.length]!;
    parts.push(bytes.subarray(at, at + n));
    at += n;
  }
  return parts;
}

function stream(parts: readonly Uint8Array[]): string[] {
  const decoder = new StreamDecoder(pieces(parts));
  return [...parts.map((_, id) => decoder.push(id)), decoder.flush()];
}

const lengths = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1 });

describe("StreamDecoder", () => {
  test("an emoji, CJK and combining marks given byte by byte join to the same text, without U+FFFD", () => {
    const text = "😀🇩🇪 日本語 é";
    const out = stream(cut(bytesOf(text), [1]));
    expect(out.join("")).toBe(text);
    expect(out.some((part) => part.includes("\ufffd"))).toBe(false);
    expect(out[2]).toBe("");
    expect(out[3]).toBe("😀");
  });

  test("any text cut anywhere joins to the same text and no part ends inside a character", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), lengths, (text, ns) => {
        const out = stream(cut(bytesOf(text), ns));
        expect(out.join("")).toBe(text);
        for (const part of out) expect(part).not.toMatch(/\p{Cs}/u);
      }),
    );
  });

  test("any bytes cut anywhere give what decoding them at once gives", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), lengths, (bytes, ns) => {
        expect(stream(cut(bytes, ns)).join("")).toBe(
          new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes),
        );
      }),
    );
  });

  test("an unfinished character becomes U+FFFD only at the end", () => {
    const out = stream([Uint8Array.of(0xe2), Uint8Array.of(0x82)]);
    expect(out).toEqual(["", "", "\ufffd"]);
  });

  test("a byte that can begin no character becomes U+FFFD at once", () => {
    expect(stream([Uint8Array.of(0xff), bytesOf("a")])).toEqual(["\ufffd", "a", ""]);
  });

  test("U+FEFF is text like any other", () => {
    expect(stream([bytesOf("\ufeffa")]).join("")).toBe("\ufeffa");
  });

  test("the blank before a text is taken off at its start only, and only once", () => {
    const parts = [new Uint8Array(0), bytesOf(" a"), bytesOf(" b")];
    const all = (atStart: boolean, prefix: boolean): string => {
      const decoder = new StreamDecoder(pieces(parts, prefix), { atStart });
      return [0, 1, 2].map((id) => decoder.push(id)).join("");
    };
    expect(all(true, true)).toBe("a b");
    expect(all(false, true)).toBe(" a b");
    expect(all(true, false)).toBe(" a b");
  });
});

/** Feeds a text in parts; what came out, and the stop string found. */
function filter(stops: readonly string[], parts: readonly string[]): [string, string | undefined] {
  const stop = new StopFilter(stops);
  const text = parts.map((part) => stop.push(part)).join("") + stop.flush();
  return [text, stop.found];
}

describe("StopFilter", () => {
  test("text up to the stop string comes out, the rest does not", () => {
    expect(filter(["END"], ["ab EN", "D cd", "ef"])).toEqual(["ab ", "END"]);
  });

  test("what could be the beginning of a stop string is held back until it is not", () => {
    const stop = new StopFilter(["\n\n"]);
    expect(stop.push("a\n")).toBe("a");
    expect(stop.push("b")).toBe("\nb");
    expect(stop.push("\n")).toBe("");
    expect(stop.flush()).toBe("\n");
  });

  test("of several stop strings the one that is complete first wins, of equals the longer", () => {
    expect(filter(["abcd", "b"], ["abcd"])).toEqual(["a", "b"]);
    expect(filter(["b", "ab"], ["xab"])).toEqual(["x", "ab"]);
  });

  test("without stop strings all text passes at once", () => {
    expect(new StopFilter([]).push("abc")).toBe("abc");
  });

  test("an empty stop string is refused", () => {
    expect(() => new StopFilter([""])).toThrow(GraphError);
  });

  test("the result does not depend on how the text is cut", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 30 });
    const stops = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), minLength: 1, maxLength: 4 }), {
      maxLength: 3,
    });
    fc.assert(
      fc.property(letters, stops, lengths, (text, words, ns) => {
        const parts = cut(bytesOf(text), ns).map((part) => new TextDecoder().decode(part));
        const [out, found] = filter(words, parts);
        expect([out, found]).toEqual(filter(words, [text]));
        expect(words.some((word) => out.includes(word))).toBe(false);
        expect(text.startsWith(out + (found ?? ""))).toBe(true);
        if (found === undefined) expect(out).toBe(text);
      }),
    );
  });
});
