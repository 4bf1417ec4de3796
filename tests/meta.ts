// Metadata made up for tests: key to value, with GGUF's type given or guessed.
import { Metadata, type MetaValue, type StringList } from "../ts/llm/metadata.ts";

/** A value for {@link metaOf}: a number is u32, or f32 when given as { f32 }. */
export type Fake =
  | number
  | string
  | boolean
  | { f32: number }
  | readonly string[]
  | Float32Array
  | Int32Array
  | Uint8Array
  | MetaValue
  | undefined;

/** Metadata with these values; undefined leaves a key out. */
export function metaOf(values: Record<string, Fake>): Metadata {
  const map = new Map<string, MetaValue>();
  for (const [key, value] of Object.entries(values)) if (value !== undefined) map.set(key, valueOf(value));
  return new Metadata(map);
}

function valueOf(value: Exclude<Fake, undefined>): MetaValue {
  if (typeof value === "number") return { type: 4, value };
  if (typeof value === "string") return { type: 8, value };
  if (typeof value === "boolean") return { type: 7, value };
  if (value instanceof Float32Array) return { type: 9, elementType: 6, value };
  if (value instanceof Int32Array) return { type: 9, elementType: 5, value };
  if (value instanceof Uint8Array) return { type: 9, elementType: 0, value };
  if ("f32" in value) return { type: 6, value: value.f32 };
  if ("type" in value) return value;
  return { type: 9, elementType: 8, value: stringList(value) };
}

/** A list of texts; "\\xHH" in a text is that raw byte. */
export function stringList(texts: readonly string[]): StringList {
  const bytes = texts.map((text) => rawBytes(text));
  return { length: texts.length, bytes: (i) => bytes[i] ?? new Uint8Array(0) };
}

function rawBytes(text: string): Uint8Array {
  const parts = text.split(/(\\x[0-9a-f]{2})/);
  return new Uint8Array(
    parts.flatMap((p) =>
      /^\\x[0-9a-f]{2}$/.test(p) ? [parseInt(p.slice(2), 16)] : [...new TextEncoder().encode(p)],
    ),
  );
}

/** A small SentencePiece vocabulary: <unk> <s> </s>, 256 byte tokens, then `pieces`, scored by their order. */
export function spmMeta(pieces: readonly string[], more: Record<string, Fake> = {}): Record<string, Fake> {
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, "0")}>`);
  const tokens = ["<unk>", "<s>", "</s>", ...bytes, ...pieces];
  return {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": tokens,
    "tokenizer.ggml.scores": Float32Array.from(tokens, (_, id) => -id),
    "tokenizer.ggml.token_type": Int32Array.from(tokens, (_, id) =>
      id === 0 ? 2 : id < 3 ? 3 : id < 259 ? 6 : 1,
    ),
    ...more,
  };
}
