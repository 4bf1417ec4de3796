// The normaliser that SentencePiece compiles into a file: the longest known beginning of a text becomes another text.
//
//   u32 bytes of the array | the array, u32 each | texts, each ended by a zero byte
//
// The array is a trie. Children of the node at i lie at i ^ base(i) ^ byte, the value of a node that ends a key at
// i ^ base(i): the place of its text.
//
//   bits 0..7 and 31: the byte that leads here (31 is set in a value) | 8: a key ends here | 9: base is shifted by 8 more
//   | 10..30: base

import { FormatError } from "../errors.ts";
import type { Metadata } from "./metadata.ts";

const KEY = "tokenizer.ggml.precompiled_charsmap";
/** Bytes of a replacement at most: the longest that is published has 33. */
const MAX_TEXT = 255;

/** What stands at a place of a text. */
export interface Replacement {
  /** bytes that are replaced */
  readonly length: number;
  readonly text: Uint8Array;
}

/** A compiled table. Whatever its bytes are, a look-up ends and stays inside. */
export class Charsmap {
  readonly #nodes: Uint32Array;
  readonly #texts: Uint8Array;

  /** @throws {FormatError} bad-value when the parts do not fit, or a text has no end */
  constructor(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = bytes.length < 4 ? -1 : view.getUint32(0, true);
    if (size < 4 || size % 4 !== 0 || 4 + size > bytes.length) throw broken("its array does not fit");
    this.#nodes = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.#texts = bytes.subarray(4 + size);
    for (let at = 0; at < this.#texts.length;) {
      const end = this.#texts.indexOf(0, at);
      if (end < 0 || end - at > MAX_TEXT) throw broken("a text in it does not end");
      at = end + 1;
    }
  }

  /** The table of a file; undefined when it has none. @throws {FormatError} bad-type, bad-value */
  static read(meta: Metadata): Charsmap | undefined {
    const bytes = meta.bytes(KEY);
    return bytes === undefined || bytes.length === 0 ? undefined : new Charsmap(bytes);
  }

  /** The longest key at `at` of a text, and what takes its place. */
  longest(text: Uint8Array, at: number): Replacement | undefined {
    let node = this.#base(0);
    let length = 0;
    let value = -1;
    for (let i = at; i < text.length && text[i] !== 0; i++) {
      node ^= text[i]!;
      const unit = this.#nodes[node];
      if (unit === undefined || (unit & 0x800000ff) !== text[i]) break;
      node ^= this.#base(node);
      const end = this.#nodes[node];
      if ((unit & 0x100) === 0 || end === undefined) continue;
      length = i + 1 - at;
      value = end & 0x7fffffff;
    }
    if (length === 0 || value >= this.#texts.length) return undefined;
    return { length, text: this.#texts.subarray(value, this.#texts.indexOf(0, value)) };
  }

  #base(node: number): number {
    const unit = this.#nodes[node]!;
    return ((unit >>> 10) << ((unit & 0x200) >> 6)) >>> 0;
  }
}

function broken(why: string): FormatError {
  return new FormatError("bad-value", `${KEY}: ${why}`, { key: KEY });
}
