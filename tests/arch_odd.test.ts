// Models of sizes that no vector, block or tile divides, against the reference in double precision.
import { describe, test } from "vitest";
import { type TensorData, writeGguf } from "../ts/gguf/index.ts";
import { compare, each, extra, norm, rope, type Variant } from "./arch/variant.ts";
import { type Fake, metaMap, spmMeta } from "./meta.ts";

/** 3 layers, E 33, 3 heads of 10 and 7 over one of keys and values, F 31, V 262. */
function odd(arch: "llama" | "gemma2", more: Record<string, Fake>): Uint8Array<ArrayBuffer> {
  const meta = {
    ...spmMeta(["a", "b", "c"]),
    "general.architecture": arch,
    [`${arch}.context_length`]: 64,
    [`${arch}.embedding_length`]: 33,
    [`${arch}.block_count`]: 3,
    [`${arch}.feed_forward_length`]: 31,
    [`${arch}.attention.head_count`]: 3,
    [`${arch}.attention.head_count_kv`]: 1,
    [`${arch}.attention.key_length`]: 10,
    [`${arch}.attention.value_length`]: 7,
    [`${arch}.attention.layer_norm_rms_epsilon`]: { f32: 1e-5 },
    ...more,
  };
  const norms = arch === "llama" ? [] : ["post_attention_norm", "post_ffw_norm"];
  const layer = (blk: string): TensorData[] => [
    ...["attn_norm", "ffn_norm", ...norms].map((name) => norm(`${blk}${name}.weight`, 33)),
    extra(`${blk}attn_q.weight`, [33, 30]),
    extra(`${blk}attn_k.weight`, [33, 10]),
    extra(`${blk}attn_v.weight`, [33, 7]),
    extra(`${blk}attn_output.weight`, [21, 33]),
    extra(`${blk}ffn_gate.weight`, [33, 31]),
    extra(`${blk}ffn_up.weight`, [33, 31]),
    extra(`${blk}ffn_down.weight`, [31, 33]),
  ];
  const tensors = [extra("token_embd.weight", [33, 262]), norm("output_norm.weight", 33), ...each(3, layer)];
  return new Uint8Array(writeGguf(metaMap(meta), tensors));
}

const ODD: readonly Variant[] = [
  [
    "llama, linear stretch",
    () => odd("llama", rope("llama", { "scaling.type": "linear", "scaling.factor": { f32: 3 } })),
  ],
  [
    "llama, yarn",
    () =>
      odd(
        "llama",
        rope("llama", {
          "scaling.type": "yarn",
          "scaling.factor": { f32: 2 },
          "scaling.original_context_length": 20,
        }),
      ),
  ],
  ...[1, 5, 31].map((window): Variant => [
    `gemma2, a window of ${window} and caps`,
    () =>
      odd("gemma2", {
        "gemma2.attention.sliding_window": window,
        "gemma2.attn_logit_softcapping": { f32: 2 },
        "gemma2.final_logit_softcapping": { f32: 3 },
      }),
  ]),
];

describe("sizes that nothing divides", () => {
  test.each(ODD)("%s", (_, bytes) => compare(bytes()));
});
