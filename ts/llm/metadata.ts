// Typed reading of a file's metadata: the right kind of value, or an error that names the key.

import { FormatError } from "../errors.ts";
import { type GgufFile, GgufType, type MetaValue, type StringArray } from "../gguf/index.ts";
import { valueTypeName } from "../gguf/values.ts";

const { INT32, UINT32, FLOAT32, FLOAT64, BOOL, STRING, ARRAY } = GgufType;
const INTEGERS: readonly number[] = [
  GgufType.UINT8,
  GgufType.INT8,
  GgufType.UINT16,
  GgufType.INT16,
  UINT32,
  INT32,
  GgufType.UINT64,
  GgufType.INT64,
];

/** A list of strings whose bytes need not be UTF-8. */
export type StringList = Pick<StringArray, "length" | "bytes">;

/**
 * Getters over the metadata of one file. Without a fallback a key is required.
 *
 * Every getter throws FormatError: `missing-key`, `bad-type` (wrong kind of value) or `bad-hparam` (out of range).
 */
export class Metadata {
  readonly #source: GgufFile["metadata"];

  constructor(source: GgufFile["metadata"]) {
    this.#source = source;
  }

  has(key: string): boolean {
    return this.#source.get(key) !== undefined;
  }

  isArray(key: string): boolean {
    return this.#source.get(key)?.type === ARRAY;
  }

  /** An unsigned 32-bit number, stored in any integer type that holds it. */
  u32(key: string, fallback?: number): number {
    const found = this.#scalar(key, INTEGERS, "u32", fallback);
    return found === undefined ? fallback! : u32Of(key, found);
  }

  /** A token id: undefined when absent or when the stored number (-1, 2^32-1) means "none". */
  id(key: string): number | undefined {
    if (!this.has(key)) return undefined;
    const raw = Number(this.#scalar(key, INTEGERS, "u32", undefined));
    return raw === -1 || raw === 0xffffffff ? -1 : raw;
  }

  /** A finite float. */
  f32(key: string, fallback?: number): number {
    const found = this.#scalar(key, [FLOAT32, FLOAT64], "f32", fallback);
    const x = found === undefined ? fallback! : Number(found);
    if (!Number.isFinite(x))
      throw new FormatError("bad-hparam", `${key}: ${x} is not finite`, { key, actual: x });
    return x;
  }

  bool(key: string, fallback?: boolean): boolean {
    return (this.#scalar(key, [BOOL], "bool", fallback) ?? fallback) as boolean;
  }

  str(key: string, fallback?: string): string {
    return (this.#scalar(key, [STRING], "string", fallback) ?? fallback) as string;
  }

  /** A list of strings; undefined when absent. */
  strings(key: string): StringList | undefined {
    return this.#array(key, [STRING], "string") as StringList | undefined;
  }

  /** A list of 32-bit integers; undefined when absent. Narrower types are refused: a reader that trusts them overruns. */
  i32s(key: string): ArrayLike<number> | undefined {
    return this.#array(key, [INT32, UINT32], "i32") as ArrayLike<number> | undefined;
  }

  /** A list of f32 (or 32-bit integers); undefined when absent. */
  f32s(key: string): ArrayLike<number> | undefined {
    return this.#array(key, [FLOAT32, INT32, UINT32], "f32") as ArrayLike<number> | undefined;
  }

  /** A list of bytes, signed or not; undefined when absent. */
  bytes(key: string): Uint8Array | undefined {
    const list = this.#array(key, [GgufType.UINT8, GgufType.INT8], "u8") as
      Uint8Array | Int8Array | undefined;
    return list === undefined ? undefined : new Uint8Array(list.buffer, list.byteOffset, list.byteLength);
  }

  /** A number given once for all layers, or as an array of exactly `nLayer` equal numbers. */
  perLayer(key: string, nLayer: number, fallback?: number): number {
    if (!this.isArray(key)) return this.u32(key, fallback);
    const list = this.eachLayer(key, nLayer);
    const first = list[0]!;
    const other = list.find((n) => n !== first);
    if (other === undefined) return first;
    throw new FormatError(
      "bad-hparam",
      `${key}: layers differ (${first} and ${other}), which is not supported`,
      { key },
    );
  }

  /** A number for each layer: given once for all, or as an array of exactly `nLayer` numbers. */
  eachLayer(key: string, nLayer: number, fallback?: number): number[] {
    if (!this.isArray(key)) return new Array<number>(nLayer).fill(this.u32(key, fallback));
    const list = this.#array(key, [INT32, UINT32], "u32") as ArrayLike<number>;
    if (list.length !== nLayer) {
      throw new FormatError(
        "bad-hparam",
        `${key}: expected ${nLayer} entries (one per layer), found ${list.length}`,
        {
          key,
          expected: nLayer,
          actual: list.length,
        },
      );
    }
    return Array.from(list, (n) => u32Of(key, n));
  }

  #scalar(
    key: string,
    types: readonly number[],
    want: string,
    fallback: unknown,
  ): MetaValue["value"] | undefined {
    const found = this.#source.get(key);
    if (found === undefined) {
      if (fallback === undefined) throw missingKey(key);
      return undefined;
    }
    if (!types.includes(found.type)) throw badType(key, want, found);
    return found.value;
  }

  #array(key: string, types: readonly number[], want: string): MetaValue["value"] | undefined {
    const found = this.#source.get(key);
    if (found === undefined) return undefined;
    if (found.type !== ARRAY || !types.includes(found.elementType))
      throw badType(key, `array of ${want}`, found);
    return found.value;
  }
}

/** The error for an absent key. */
export function missingKey(key: string): FormatError {
  return new FormatError("missing-key", `${key}: missing`, { key });
}

function u32Of(key: string, raw: unknown): number {
  const x = Number(raw);
  if (x >= 0 && x <= 0xffffffff) return x;
  throw new FormatError("bad-hparam", `${key}: ${x} is not in 0..4294967295`, { key, actual: x });
}

function badType(key: string, want: string, found: MetaValue): FormatError {
  const actual =
    found.type === ARRAY ? `array of ${valueTypeName(found.elementType)}` : valueTypeName(found.type);
  return new FormatError("bad-type", `${key}: expected ${want}, found ${actual}`, {
    key,
    expected: want,
    actual,
  });
}
