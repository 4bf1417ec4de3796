// What metadata values are in memory: plain data that keeps the value type of the file.

/** GGUF's value types. */
export const GgufType = {
  UINT8: 0,
  INT8: 1,
  UINT16: 2,
  INT16: 3,
  UINT32: 4,
  INT32: 5,
  FLOAT32: 6,
  BOOL: 7,
  STRING: 8,
  ARRAY: 9,
  UINT64: 10,
  INT64: 11,
  FLOAT64: 12,
} as const;

/** A value type of {@link GgufType}. */
export type GgufType = (typeof GgufType)[keyof typeof GgufType];

/** JavaScript's form of each scalar type. 64-bit integers are exact. */
export interface ScalarOf {
  [GgufType.UINT8]: number;
  [GgufType.INT8]: number;
  [GgufType.UINT16]: number;
  [GgufType.INT16]: number;
  [GgufType.UINT32]: number;
  [GgufType.INT32]: number;
  [GgufType.FLOAT32]: number;
  [GgufType.BOOL]: boolean;
  [GgufType.UINT64]: bigint;
  [GgufType.INT64]: bigint;
  [GgufType.FLOAT64]: number;
}

/** JavaScript's form of an array, by element type. Booleans are bytes 0 and 1. */
export interface ElementsOf {
  [GgufType.UINT8]: Uint8Array;
  [GgufType.INT8]: Int8Array;
  [GgufType.UINT16]: Uint16Array;
  [GgufType.INT16]: Int16Array;
  [GgufType.UINT32]: Uint32Array;
  [GgufType.INT32]: Int32Array;
  [GgufType.FLOAT32]: Float32Array;
  [GgufType.BOOL]: Uint8Array;
  [GgufType.STRING]: StringArray;
  [GgufType.ARRAY]: readonly MetaArray[];
  [GgufType.UINT64]: BigUint64Array;
  [GgufType.INT64]: BigInt64Array;
  [GgufType.FLOAT64]: Float64Array;
}

/** A scalar that is not a string. */
export type MetaScalar = {
  [T in keyof ScalarOf]: { readonly type: T; readonly value: ScalarOf[T] };
}[keyof ScalarOf];

/** A string. */
export interface MetaString {
  readonly type: typeof GgufType.STRING;
  /** the text; bytes that are not UTF-8 read as U+FFFD */
  readonly value: string;
  /** the bytes of the file, kept only where they are not valid UTF-8 */
  readonly bytes?: Uint8Array;
}

/** An array. All elements have one type. */
export type MetaArray = {
  [T in keyof ElementsOf]: {
    readonly type: typeof GgufType.ARRAY;
    readonly elementType: T;
    readonly value: ElementsOf[T];
  };
}[keyof ElementsOf];

/** A metadata value with its type in the file. */
export type MetaValue = MetaScalar | MetaString | MetaArray;

/** Bytes of a scalar of each type; 0 for strings and arrays, whose size varies. Indexed by {@link GgufType}. */
export const SCALAR_BYTES: readonly number[] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];

/** Name of a value type, for messages. */
export function valueTypeName(type: number): string {
  const entry = Object.entries(GgufType).find(([, id]) => id === type);
  return entry === undefined ? `value type ${type}` : entry[0].toLowerCase();
}

const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

/** Text of bytes; bytes that are not UTF-8 read as U+FFFD. A leading U+FEFF is kept. */
export function decodeText(bytes: Uint8Array): string {
  return lenient.decode(bytes);
}

/** Text of valid UTF-8, undefined for anything else. */
export function decodeStrict(bytes: Uint8Array): string | undefined {
  try {
    return strict.decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * The strings of an array value, in one block of memory and decoded when asked for: a vocabulary of 150,000 tokens is
 * two typed arrays, and tokens that are not valid UTF-8 keep their bytes.
 *
 *     #block   len0 text0 len1 text1 ...       as in the file, each length 8 bytes
 *     #starts  ^    ^                          starts[i] = where text i begins; the last entry is 8 past the end
 */
export class StringArray {
  readonly #block: Uint8Array;
  readonly #starts: Uint32Array;

  /** @param starts where each text begins in `block`, and one entry more: `block.length + 8` */
  constructor(block: Uint8Array, starts: Uint32Array) {
    this.#block = block;
    this.#starts = starts;
  }

  /** Number of strings. */
  get length(): number {
    return this.#starts.length - 1;
  }

  /** Bytes of string `i`, a view. Empty when there is no such string. */
  bytes(i: number): Uint8Array {
    const start = this.#starts[i];
    const next = this.#starts[i + 1];
    if (start === undefined || next === undefined) return new Uint8Array(0);
    return this.#block.subarray(start, next - 8);
  }

  /** Text of string `i`; bytes that are not UTF-8 read as U+FFFD. */
  text(i: number): string {
    return decodeText(this.bytes(i));
  }

  /** All strings as a file holds them: 8 bytes of length, then the text. A view. */
  get encoded(): Uint8Array {
    return this.#block;
  }

  /** The texts in order. */
  *[Symbol.iterator](): Generator<string, void, undefined> {
    for (let i = 0; i < this.length; i++) yield this.text(i);
  }

  /** The same strings from texts or bytes. */
  static from(strings: Iterable<string | Uint8Array>): StringArray {
    const encoder = new TextEncoder();
    const parts = Array.from(strings, (s) => (typeof s === "string" ? encoder.encode(s) : s));
    const block = new Uint8Array(parts.reduce((sum, part) => sum + 8 + part.length, 0));
    const view = new DataView(block.buffer);
    const starts = new Uint32Array(parts.length + 1);
    let at = 8;
    for (const [i, part] of parts.entries()) {
      view.setUint32(at - 8, part.length, true);
      block.set(part, at);
      starts[i] = at;
      at += part.length + 8;
    }
    starts[parts.length] = at;
    return new StringArray(block, starts);
  }
}
