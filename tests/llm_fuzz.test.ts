// Any value of any type under any key: parameters and tokenizers load or throw a FormatError, and then work.
import fc from "fast-check";
import { expect, test } from "vitest";
import { FormatError } from "../ts/errors.ts";
import { GgufType, type MetaValue, StringArray } from "../ts/gguf/index.ts";
import { loadParams } from "../ts/llm/arch/index.ts";
import { loadTokenizer } from "../ts/llm/tokenizer.ts";
import { type Fake, metaOf, spmMeta } from "./meta.ts";

const MODELS: Record<string, Record<string, Fake>> = {
  llama: spmMeta(["▁", "a", "▁a", "<|eot_id|>"]),
  gpt2: {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "llama-bpe",
    "tokenizer.ggml.tokens": ["a", "b", "ab", "Ġ", "Ġa", "<s>", "7", "8", "9", "10", "11", "12"],
    "tokenizer.ggml.merges": ["a b", "Ġ a"],
    "tokenizer.ggml.token_type": Int32Array.of(1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 4),
  },
  bert: {
    "tokenizer.ggml.model": "bert",
    "tokenizer.ggml.tokens": ["[UNK]", "[CLS]", "[SEP]", "▁a", "b"],
    "tokenizer.ggml.token_type": Int32Array.of(3, 3, 3, 1, 1),
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.seperator_token_id": 2,
  },
};

const SIZES: Record<string, Fake> = {
  "general.architecture": "llama",
  "llama.context_length": 64,
  "llama.embedding_length": 32,
  "llama.block_count": 2,
  "llama.feed_forward_length": 48,
  "llama.attention.head_count": 4,
  "llama.attention.layer_norm_rms_epsilon": { f32: 1e-5 },
};

const MORE_KEYS = [
  "general.name",
  "llama.vocab_size",
  "llama.attention.head_count_kv",
  "llama.attention.key_length",
  "llama.attention.value_length",
  "llama.rope.dimension_count",
  "llama.rope.freq_base",
  "llama.rope.scale_linear",
  "llama.rope.scaling.type",
  "llama.rope.scaling.factor",
  "llama.rope.scaling.original_context_length",
  "llama.rope.scaling.attn_factor",
  "llama.rope.scaling.yarn_beta_fast",
  "llama.expert_count",
  "llama.expert_used_count",
  "tokenizer.ggml.scores",
  "tokenizer.ggml.eos_token_id",
  "tokenizer.ggml.eot_token_id",
  "tokenizer.ggml.padding_token_id",
  "tokenizer.ggml.fim_pad_token_id",
  "tokenizer.ggml.mask_token_id",
  "tokenizer.ggml.add_bos_token",
  "tokenizer.ggml.add_eos_token",
  "tokenizer.ggml.add_space_prefix",
  "tokenizer.ggml.suppress_tokens",
  "tokenizer.ggml.normalizer.lowercase",
  "tokenizer.ggml.normalizer.strip_accents",
];

const number = fc.oneof(fc.constantFrom(0, 1, 2, 7, 8, 2 ** 31, 2 ** 32 - 1), fc.nat(2 ** 32 - 1));
const list = fc.array(fc.oneof(fc.nat(8), fc.integer()), { maxLength: 300 });
const text = fc.oneof(
  fc.constantFrom("llama", "gpt2", "bert", "yarn", "linear", "default", "a b"),
  fc.string(),
);
const array = (elementType: number, value: unknown): MetaValue =>
  ({ type: GgufType.ARRAY, elementType, value }) as MetaValue;

const anyValue: fc.Arbitrary<MetaValue> = fc.oneof(
  fc.tuple(fc.constantFrom(0, 1, 2, 3, 4, 5), number).map(([type, value]) => ({ type, value }) as MetaValue),
  fc
    .tuple(fc.constantFrom(10, 11), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n }))
    .map(([type, value]) => ({ type, value }) as MetaValue),
  fc.tuple(fc.constantFrom(6, 12), fc.double()).map(([type, value]) => ({ type, value }) as MetaValue),
  fc.boolean().map((value): MetaValue => ({ type: GgufType.BOOL, value })),
  text.map((value): MetaValue => ({ type: GgufType.STRING, value })),
  list.map((v) => array(GgufType.INT32, Int32Array.from(v))),
  list.map((v) => array(GgufType.UINT8, Uint8Array.from(v))),
  list.map((v) => array(GgufType.FLOAT32, Float32Array.from(v))),
  list.map((v) => array(GgufType.INT64, BigInt64Array.from(v, BigInt))),
  fc
    .array(fc.oneof(fc.string(), fc.uint8Array({ maxLength: 6 })), { maxLength: 12 })
    .map((v) => array(GgufType.STRING, StringArray.from(v))),
  fc.constant(array(GgufType.ARRAY, [])),
);

test("one or two keys with any value: a FormatError, or a tokenizer that encodes and decodes", () => {
  const changes = (keys: readonly string[]): fc.Arbitrary<[string, MetaValue | undefined][]> =>
    fc.array(fc.tuple(fc.constantFrom(...keys), fc.option(anyValue, { nil: undefined })), {
      minLength: 1,
      maxLength: 2,
    });
  for (const [model, base] of Object.entries(MODELS)) {
    const all = { ...SIZES, ...base };
    let loaded = 0;
    fc.assert(
      fc.property(changes([...Object.keys(all), ...MORE_KEYS]), (changed) => {
        const meta = metaOf({ ...all, ...Object.fromEntries(changed) });
        loaded += accepted(() => loadParams(meta)) ? 1 : 0;
        accepted(() => {
          const tokenizer = loadTokenizer(meta);
          const ids = tokenizer.encode("ab €<s> \ud800<|eot_id|>");
          expect(ids.every((id) => Number.isInteger(id) && id >= 0 && id < tokenizer.nVocab)).toBe(true);
          tokenizer.decode(ids, { special: true });
        });
      }),
      { numRuns: 600 },
    );
    expect(loaded, model).toBeGreaterThan(50);
  }
});

/** False when a FormatError was thrown; anything else that is thrown is a failure. */
function accepted(body: () => unknown): boolean {
  try {
    body();
    return true;
  } catch (error) {
    if (error instanceof FormatError) return false;
    throw error;
  }
}
