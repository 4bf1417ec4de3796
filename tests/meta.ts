// Metadata made up for tests: key to value, with GGUF's type given or guessed.
import { GgufType, type MetaValue, StringArray } from "../ts/gguf/index.ts";
import { Metadata } from "../ts/llm/metadata.ts";

/** A value for {@link metaOf}: a number is u32, or f32 when given as { f32 }. In a list of texts, bytes are raw. */
export type Fake =
  | number
  | string
  | boolean
  | { f32: number }
  | readonly (string | Uint8Array)[]
  | Float32Array
  | Int32Array
  | Uint8Array
  | MetaValue
  | undefined;

/** Metadata with these values; undefined leaves a key out. */
export function metaOf(values: Record<string, Fake>): Metadata {
  return new Metadata(metaMap(values));
}

/** The same as a map, to be written to a file. */
export function metaMap(values: Record<string, Fake>): Map<string, MetaValue> {
  const map = new Map<string, MetaValue>();
  for (const [key, value] of Object.entries(values)) if (value !== undefined) map.set(key, valueOf(value));
  return map;
}

function valueOf(value: Exclude<Fake, undefined>): MetaValue {
  if (typeof value === "number") return { type: GgufType.UINT32, value };
  if (typeof value === "string") return { type: GgufType.STRING, value };
  if (typeof value === "boolean") return { type: GgufType.BOOL, value };
  const type = GgufType.ARRAY;
  if (value instanceof Float32Array) return { type, elementType: GgufType.FLOAT32, value };
  if (value instanceof Int32Array) return { type, elementType: GgufType.INT32, value };
  if (value instanceof Uint8Array) return { type, elementType: GgufType.UINT8, value };
  if ("f32" in value) return { type: GgufType.FLOAT32, value: value.f32 };
  if ("type" in value) return value;
  return { type, elementType: GgufType.STRING, value: StringArray.from(value) };
}

/** A small SentencePiece vocabulary: <unk> <s> </s>, 256 byte tokens, then `pieces`, scored by their order. */
export function spmMeta(
  pieces: readonly (string | Uint8Array)[],
  more: Record<string, Fake> = {},
): Record<string, Fake> {
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
