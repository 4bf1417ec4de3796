// Options that the golden files miss, against a reference in double precision written apart: rope scaling with factors,
// windows and caps of odd sizes, patterns, variants of the blocks. Each by the cache and without.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { GgufType, parseGguf, type TensorData } from "../ts/gguf/index.ts";
import { caseNames, type CausalCase, modelFile, nmse, readCase } from "./arch/golden.ts";
import { Latent64 } from "./arch/reference/latent.ts";
import { Model64 } from "./arch/reference/model.ts";
import { deepen, remake } from "./arch/remake.ts";
import {
  compare,
  compareLogits,
  each,
  extra,
  IDS,
  norm,
  rope,
  type Variant,
  withModel,
} from "./arch/variant.ts";
import { describeWith } from "./data.ts";
import type { Fake } from "./meta.ts";

const ROPE: readonly Variant[] = [
  [
    "llama: linear stretch and frequency factors together",
    () =>
      remake("llama-ropefreqs", rope("llama", { "scaling.type": "linear", "scaling.factor": { f32: 2.5 } })),
  ],
  [
    "llama: yarn and frequency factors together, with an attention factor",
    () =>
      remake(
        "llama-ropefreqs",
        rope("llama", {
          "scaling.type": "yarn",
          "scaling.factor": { f32: 4 },
          "scaling.original_context_length": 32,
          "scaling.attn_factor": { f32: 0.8 },
        }),
      ),
  ],
  [
    "llama: yarn that shrinks",
    () => remake("llama-rope-yarn", rope("llama", { "scaling.factor": { f32: 0.5 } })),
  ],
  [
    "llama: yarn without a stretch",
    () => remake("llama-rope-yarn", rope("llama", { "scaling.factor": undefined })),
  ],
  [
    "llama: no scaling in spite of a factor, and an attention factor",
    () =>
      remake(
        "llama-rope-linear",
        rope("llama", { "scaling.type": "none", "scaling.attn_factor": { f32: 1.3 } }),
      ),
  ],
  [
    "llama: longrope with a factor",
    () =>
      remake("llama-rope-yarn", rope("llama", { "scaling.type": "longrope", "scaling.factor": { f32: 2 } }), [
        extra("rope_factors_long.weight", [16], 0.5, 2),
        extra("rope_factors_short.weight", [16], 0.3, 1),
      ]),
  ],
  [
    "qwen2: yarn over half a head's pairs",
    () =>
      remake(
        "qwen2-tied",
        rope("qwen2", {
          "scaling.type": "yarn",
          "scaling.factor": { f32: 3 },
          "scaling.original_context_length": 16,
          dimension_count: 4,
        }),
      ),
  ],
  [
    "gemma3: yarn on the full layers only",
    () =>
      remake("gemma3", {
        ...rope("gemma3", {
          "scaling.type": "yarn",
          "scaling.factor": { f32: 4 },
          "scaling.original_context_length": 16,
        }),
        "gemma3.attention.sliding_window": 5,
      }),
  ],
  [
    "olmo2: a window of 5 whose layers are not stretched (OLMo 3)",
    () =>
      remake("olmo2", {
        "olmo2.attention.sliding_window": 5,
        "olmo2.attention.sliding_window_pattern": 2,
        ...rope("olmo2", {
          "scaling.type": "yarn",
          "scaling.factor": { f32: 4 },
          "scaling.original_context_length": 16,
        }),
      }),
  ],
  [
    "mistral3: a stretch of 1.5 by another multiplier",
    () =>
      remake(
        "mistral3",
        rope("mistral3", { "scaling.factor": { f32: 1.5 }, "scaling.yarn_log_multiplier": { f32: 0.3 } }),
      ),
  ],
  [
    "granite: heads that are not turned",
    () => remake("granite", { "granite.rope.scaling.finetuned": false }),
  ],
];

const WINDOWS: readonly Variant[] = [
  ...[1, 3, 7, 31, 33].map((window): Variant => [
    `gemma2: a window of ${window}, caps of 3 and 11`,
    () =>
      remake("gemma2", {
        "gemma2.attention.sliding_window": window,
        "gemma2.attn_logit_softcapping": { f32: 3 },
        "gemma2.final_logit_softcapping": { f32: 11 },
      }),
  ]),
  [
    "gemma2: the default caps and window",
    () =>
      remake("gemma2", {
        "gemma2.attention.sliding_window": undefined,
        "gemma2.attn_logit_softcapping": undefined,
        "gemma2.final_logit_softcapping": undefined,
      }),
  ],
  ["gemma2: 46 layers scale their scores by the embedding", () => deepen("gemma2", 46)],
  ["gemma3: 62 layers scale their scores by the embedding", () => deepen("gemma3", 62)],
  [
    "gemma3: no window, a cap of the logits",
    () =>
      remake("gemma3", {
        "gemma3.attention.sliding_window": undefined,
        "gemma3.final_logit_softcapping": { f32: 4 },
      }),
  ],
  [
    "gemma3: all layers slide over 3 positions, turned by a base of their own",
    () =>
      remake("gemma3", {
        "gemma3.attention.sliding_window": 3,
        "gemma3.attention.sliding_window_pattern": 0,
        "gemma3.rope.freq_base_swa": { f32: 500 },
      }),
  ],
  [
    "gemma3: a pattern that is a list counts as the default",
    () =>
      remake("gemma3", {
        "gemma3.attention.sliding_window_pattern": {
          type: GgufType.ARRAY,
          elementType: GgufType.BOOL,
          value: Uint8Array.of(1, 0, 1, 0, 1, 0, 1),
        },
      }),
  ],
  ["gpt-oss: a window of 3", () => remake("gpt-oss-f32", { "gpt-oss.attention.sliding_window": 3 })],
  [
    "cohere2: every second layer full, a window of 5",
    () =>
      remake("cohere2", {
        "cohere2.attention.sliding_window": 5,
        "cohere2.attention.sliding_window_pattern": 2,
      }),
  ],
  [
    "exaone4: 64 layers slide, and the full ones have no positions",
    () => remake("exaone4", { "exaone4.attention.sliding_window": 9 }, [], deepen("exaone4", 64)),
  ],
  ...[1, 7, 33].map((window): Variant => [
    `gemma-embedding: a window of ${window} both ways`,
    () => remake("gemma-embedding", { "gemma-embedding.attention.sliding_window": window }),
  ]),
  [
    "modern-bert: a window of 5 both ways, every second layer full",
    () =>
      remake("modern-bert", {
        "modern-bert.attention.sliding_window": 5,
        "modern-bert.attention.sliding_window_pattern": 2,
      }),
  ],
];

const BLOCKS: readonly Variant[] = [
  ["stablelm: one norm for both blocks, heads normed by rows of their own", stablelmParallel],
  ["gptneox: one block after the other", () => remake("gptneox", { "gptneox.use_parallel_residual": false })],
  [
    "falcon: a second norm for attention (40B)",
    () =>
      remake(
        "falcon",
        {},
        each(2, (blk) => [norm(`${blk}attn_norm_2.weight`, 32), extra(`${blk}attn_norm_2.bias`, [32])]),
      ),
  ],
  [
    "jina-bert-v2: 6 heads, q and k normed together, the input added twice, a fused block",
    () =>
      remake(
        "jina-bert-v2",
        {
          "jina-bert-v2.attention.head_count": 6,
          "jina-bert-v2.attention.head_count_kv": 6,
          "jina-bert-v2.attention.key_length": 5,
          "jina-bert-v2.attention.value_length": 5,
        },
        each(2, (blk) => [
          ...["q", "k", "v"].flatMap((part) => [
            extra(`${blk}attn_${part}.weight`, [32, 30]),
            extra(`${blk}attn_${part}.bias`, [30]),
          ]),
          extra(`${blk}attn_output.weight`, [30, 32]),
          ...["attn_q_norm", "attn_k_norm"].flatMap((name) => [
            norm(`${blk}${name}.weight`, 30),
            extra(`${blk}${name}.bias`, [30]),
          ]),
          norm(`${blk}attn_norm_2.weight`, 32),
          extra(`${blk}attn_norm_2.bias`, [32]),
          extra(`${blk}ffn_up.weight`, [32, 128]),
        ]),
        without("jina-bert-v2", /ffn_gate/),
      ),
  ],
  ["jina-bert-v2: a plain block", () => remake("jina-bert-v2", {}, [], without("jina-bert-v2", /ffn_gate/))],
  ["nomic-bert-moe: every second layer routed", nomicMoe],
];

const deepseek = (keys: Record<string, Fake>): Record<string, Fake> =>
  Object.fromEntries(Object.entries(keys).map(([key, value]) => [`deepseek2.${key}`, value]));

const LATENT: readonly Variant[] = [
  ["as the golden file", () => remake("deepseek2")],
  [
    "queries that are not compressed",
    () =>
      remake(
        "deepseek2",
        {},
        each(2, (blk) => [extra(`${blk}attn_q.weight`, [32, 48])]),
        without("deepseek2", /attn_q_/),
      ),
  ],
  [
    "keys and values that come decompressed, in old files",
    () =>
      remake(
        "deepseek2",
        deepseek({
          "attention.key_length_mla": undefined,
          "attention.value_length_mla": undefined,
          "attention.key_length": 24,
          "attention.value_length": 16,
          "attention.head_count_kv": 2,
        }),
        each(2, (blk) => [extra(`${blk}attn_kv_b.weight`, [16, 2 * 32])]),
        without("deepseek2", /attn_[kv]_b/),
      ),
  ],
  [
    "sigmoid scores with a bias, normed weights, the better of two groups",
    () =>
      remake(
        "deepseek2",
        deepseek({
          expert_gating_func: 2,
          expert_weights_norm: true,
          expert_group_count: 2,
          expert_group_used_count: 1,
          expert_weights_scale: { f32: 2.5 },
        }),
        [extra("blk.1.exp_probs_b.bias", [4], 0.3)],
      ),
  ],
  [
    "yarn without a multiplier, with an attention factor",
    () =>
      remake(
        "deepseek2",
        rope("deepseek2", { "scaling.yarn_log_multiplier": undefined, "scaling.attn_factor": { f32: 0.9 } }),
      ),
  ],
  [
    "yarn with a multiplier of 1",
    () => remake("deepseek2", rope("deepseek2", { "scaling.yarn_log_multiplier": { f32: 0.1 } })),
  ],
  [
    "no stretch",
    () => remake("deepseek2", rope("deepseek2", { "scaling.type": undefined, "scaling.factor": undefined })),
  ],
  [
    "all layers routed",
    () =>
      remake(
        "deepseek2",
        deepseek({ leading_dense_block_count: 0 }),
        routedFirst(),
        without("deepseek2", /blk\.0\.ffn_(gate|up|down)\.weight/),
      ),
  ],
];

// The experts of the second layer for the first one too.
function routedFirst(): TensorData[] {
  return parseGguf(readFileSync(modelFile("deepseek2")))
    .tensors.filter(({ name }) => /^blk\.1\.ffn_(gate_inp|.*exps?)/.test(name))
    .map(({ name, ne }) => extra(name.replace("blk.1", "blk.0"), ne));
}

function without(name: string, pattern: RegExp): Uint8Array<ArrayBuffer> {
  return remake(name, {}, [], undefined, pattern);
}

function stablelmParallel(): Uint8Array<ArrayBuffer> {
  const base = without("stablelm", /ffn_norm/);
  const [d, heads, kv] = [16, 2, 1];
  return remake(
    "stablelm",
    {},
    each(2, (blk) => [
      extra(`${blk}attn_q_norm.weight`, [d, heads], 0.4, 1),
      extra(`${blk}attn_k_norm.weight`, [d, kv], 0.4, 1),
    ]),
    base,
  );
}

function nomicMoe(): Uint8Array<ArrayBuffer> {
  const [e, f, x] = [48, 64, 4];
  const renamed = remake("nomic-bert", {}, [], undefined, /ffn_gate|blk\.1\.ffn/, "nomic-bert-moe");
  return remake(
    "nomic-bert",
    {
      "nomic-bert-moe.moe_every_n_layers": 2,
      "nomic-bert-moe.expert_count": x,
      "nomic-bert-moe.expert_used_count": 2,
    },
    [
      extra("blk.0.ffn_up.bias", [f]),
      extra("blk.0.ffn_down.bias", [e]),
      extra("blk.0.attn_qkv.bias", [3 * e]),
      extra("blk.1.ffn_gate_inp.weight", [e, x], 0.5),
      extra("blk.1.ffn_up_exps.weight", [e, f, x]),
      extra("blk.1.ffn_down_exps.weight", [f, e, x]),
    ],
    renamed,
  );
}

describeWith("golden", "options that no golden file has", () => {
  describe("rope scaling", () => {
    test.each(ROPE)("%s", (_, bytes) => compare(bytes()));
  });
  describe("windows and caps", () => {
    test.each(WINDOWS)("%s", (_, bytes) => compare(bytes()));
  });
  describe("blocks", () => {
    test.each(BLOCKS)("%s", (_, bytes) => compare(bytes()));
  });

  describe("deepseek2", () => {
    test.each(LATENT)("%s", (_, make) => {
      const bytes = make();
      return withModel(bytes, (model) => compareLogits(model, new Latent64(bytes).logits(IDS)));
    });
  });

  // The reference itself: it must agree with llama.cpp where a file exists.
  test.each([
    "llama-rope-yarn",
    "gemma3",
    "gpt-oss-f32",
    "cohere2",
    "olmo2",
    "stablelm",
    "mistral3",
    "llama-moe",
  ])("the reference agrees with llama.cpp on %s", (name) => {
    const golden = readCase(name) as CausalCase;
    const reference = new Model64(new Uint8Array(readFileSync(modelFile(name))));
    const all = reference.logits(golden.prompt);
    const positions = Object.keys(golden.logits).map(Number);
    const want = golden.ideal?.logits ?? golden.logits;
    expect(caseNames()).toContain(name);
    expect(
      nmse(
        positions.map((p) => all[p]!),
        positions.map((p) => want[p]!),
      ),
    ).toBeLessThan(1e-10);
  });
});
