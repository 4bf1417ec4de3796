// Hyper-parameters and weights of a file: what is accepted, what is refused, and with which error.
import { describe, expect, test } from "vitest";
import { loadParams, loadTensors } from "../ts/llm/arch/index.ts";
import type { Params } from "../ts/llm/params.ts";
import type { StoredTensor } from "../ts/llm/weights.ts";
import { Type } from "../ts/types.ts";
import { type Fake, metaOf, spmMeta } from "./meta.ts";

const N_VOCAB = 260;

/** A llama of 2 layers, 4 heads of 8, 2 kv heads; `more` overrides. */
function llama(more: Record<string, Fake> = {}): Params {
  return loadParams(
    metaOf({
      "general.architecture": "llama",
      "llama.context_length": 64,
      "llama.embedding_length": 32,
      "llama.block_count": 2,
      "llama.feed_forward_length": 48,
      "llama.attention.head_count": 4,
      "llama.attention.head_count_kv": 2,
      "llama.attention.layer_norm_rms_epsilon": { f32: 1e-5 },
      ...spmMeta(["▁"]),
      ...more,
    }),
  );
}

/** The weights that {@link llama} needs, each F32; `change` edits the list. */
function weights(change: (list: Map<string, StoredTensor>) => void = () => {}): StoredTensor[] {
  const list = new Map<string, StoredTensor>();
  const add = (name: string, ...ne: number[]): void => void list.set(name, { name, type: Type.F32, ne });
  add("token_embd.weight", 32, N_VOCAB);
  add("output_norm.weight", 32, 1, 1, 1);
  for (const blk of ["blk.0.", "blk.1."]) {
    for (const norm of ["attn_norm", "ffn_norm"]) add(`${blk}${norm}.weight`, 32);
    for (const [name, from, to] of [
      ["attn_q", 32, 32],
      ["attn_k", 32, 16],
      ["attn_v", 32, 16],
      ["attn_output", 32, 32],
      ["ffn_gate", 32, 48],
      ["ffn_up", 32, 48],
      ["ffn_down", 48, 32],
    ] as const)
      add(`${blk}${name}.weight`, from, to);
  }
  change(list);
  return [...list.values()];
}

const withCode = (code: string, message: string): unknown =>
  expect.objectContaining({ name: "FormatError", code, message: expect.stringContaining(message) as string });

describe("llama parameters", () => {
  test("what the file leaves out gets its default", () => {
    const ropeScale = {
      type: "linear",
      factor: 1,
      nCtxOrig: 64,
      attnFactor: 1,
      betaFast: 32,
      betaSlow: 1,
      ext: 0,
    };
    const layer = { window: 0, rope: { base: 10000, scaling: ropeScale } };
    expect(llama()).toEqual({
      arch: "llama",
      nEmbd: 32,
      nLayer: 2,
      nPredictLayers: 0,
      nCtxTrain: 64,
      learnedPositions: false,
      causal: true,
      nHead: 4,
      nHeadKv: 2,
      headDimK: 8,
      headDimV: 8,
      nRot: 8,
      nFf: 48,
      nVocab: N_VOCAB,
      normEps: 1e-5,
      ropeBase: 10000,
      ropeScale,
      layers: [layer, layer],
      nExpert: 0,
      nExpertUsed: 0,
      nFfExpert: 48,
      nFfShared: 0,
      nDenseLayers: 0,
      routing: undefined,
      latent: undefined,
      expertsEvery: 0,
      embdScale: 1,
      attnScale: 1 / Math.sqrt(8),
      attnSoftcap: 0,
      maxBias: 0,
      residualScale: 1,
      logitScale: 1,
      logitSoftcap: 0,
      temperatureScale: 0,
      parallelResidual: false,
      pooling: "none",
      nLabels: 1,
    });
    expect(llama({ "llama.attention.head_count_kv": undefined }).nHeadKv).toBe(4);
    expect(Object.isFrozen(llama())).toBe(true);
  });

  test("any integer type that holds the value will do", () => {
    expect(llama({ "llama.context_length": { type: 10, value: 100n } }).nCtxTrain).toBe(100);
    expect(llama({ "llama.context_length": { type: 5, value: 100 } }).nCtxTrain).toBe(100);
    expect(() => llama({ "llama.context_length": { type: 5, value: -1 } })).toThrow(
      withCode("bad-hparam", "context_length"),
    );
    expect(() => llama({ "llama.context_length": { type: 10, value: 2n ** 63n } })).toThrow(
      withCode("bad-hparam", "context_length"),
    );
  });

  test("per-layer arrays must have one equal entry per layer", () => {
    expect(llama({ "llama.attention.head_count_kv": Int32Array.of(2, 2) }).nHeadKv).toBe(2);
    expect(() => llama({ "llama.attention.head_count_kv": Int32Array.of(2, 4) })).toThrow(
      withCode("bad-hparam", "layers differ"),
    );
    expect(() => llama({ "llama.attention.head_count": Int32Array.of(4) })).toThrow(
      withCode("bad-hparam", "expected 2 entries"),
    );
    expect(() => llama({ "llama.attention.head_count": Int32Array.of(4, 4, 4) })).toThrow(
      withCode("bad-hparam", "found 3"),
    );
    expect(() => llama({ "llama.feed_forward_length": ["a", "b"] })).toThrow(
      withCode("bad-type", "array of string"),
    );
  });

  test("head size may differ from embedding / heads", () => {
    const p = llama({
      "llama.attention.head_count": 3,
      "llama.attention.head_count_kv": 1,
      "llama.attention.key_length": 6,
      "llama.attention.value_length": 5,
    });
    expect([p.headDimK, p.headDimV, p.nRot]).toEqual([6, 5, 6]);
  });

  const scaling = (type: string, factor: number): Record<string, Fake> => ({
    "llama.rope.scaling.type": type,
    "llama.rope.scaling.factor": { f32: factor },
  });

  test("rope scaling: factor 0 means none, yarn extrapolates", () => {
    expect(llama(scaling("linear", 0)).ropeScale.factor).toBe(1);
    expect(llama(scaling("none", 4)).ropeScale.factor).toBe(1);
    expect(llama({ "llama.rope.scale_linear": { f32: 2 } }).ropeScale.factor).toBe(2);
    expect(llama(scaling("yarn", 4)).ropeScale).toMatchObject({
      type: "yarn",
      factor: 4,
      ext: 1,
      attnFactor: 1,
    });
    expect(
      llama({ ...scaling("yarn", 4), "llama.rope.scaling.attn_factor": { f32: 0.5 } }).ropeScale.attnFactor,
    ).toBe(0.5);
  });

  test("yarn below 1 has magnitude 1: the operator's own factor is undone", () => {
    const { attnFactor } = llama(scaling("yarn", 0.5)).ropeScale;
    expect(attnFactor * (1 + 0.1 * Math.log(0.5))).toBeCloseTo(1, 12);
    expect(() => llama(scaling("yarn", 1e-6))).toThrow(withCode("bad-hparam", "rope.scaling.factor"));
  });

  test("a vocabulary may have more texts than vocab_size says, not fewer", () => {
    expect(llama({ "llama.vocab_size": N_VOCAB - 1 }).nVocab).toBe(N_VOCAB);
    expect(() => llama({ "llama.vocab_size": N_VOCAB + 1 })).toThrow(
      withCode("vocab-mismatch", `${N_VOCAB} entries`),
    );
  });

  test("without a tokenizer vocab_size decides", () => {
    const none = { "tokenizer.ggml.model": "no_vocab", "tokenizer.ggml.tokens": undefined };
    expect(llama({ ...none, "llama.vocab_size": 100 }).nVocab).toBe(100);
    expect(() => llama(none)).toThrow(withCode("missing-key", "llama.vocab_size"));
    expect(() => llama({ "tokenizer.ggml.tokens": undefined })).toThrow(
      withCode("missing-key", "tokenizer.ggml.tokens"),
    );
  });

  const bad: [string, Fake, string][] = [
    ["general.architecture", undefined, "missing-key"],
    ["general.architecture", 7, "bad-type"],
    ["general.architecture", "", "unsupported-arch"],
    ["general.architecture", "quux", "unsupported-arch"],
    ["llama.context_length", undefined, "missing-key"],
    ["llama.context_length", 0, "bad-hparam"],
    ["llama.embedding_length", "32", "bad-type"],
    ["llama.embedding_length", 2 ** 31, "bad-hparam"],
    ["llama.block_count", 0, "bad-hparam"],
    ["llama.block_count", 513, "bad-hparam"],
    ["llama.block_count", 2 ** 32 - 1, "bad-hparam"],
    ["llama.feed_forward_length", undefined, "missing-key"],
    ["llama.feed_forward_length", 0, "bad-hparam"],
    ["llama.attention.head_count", 0, "bad-hparam"],
    ["llama.attention.head_count", 6, "bad-hparam"],
    ["llama.attention.head_count_kv", 0, "bad-hparam"],
    ["llama.attention.head_count_kv", 3, "bad-hparam"],
    ["llama.attention.head_count_kv", 8, "bad-hparam"],
    ["llama.attention.key_length", 0, "bad-hparam"],
    ["llama.attention.layer_norm_rms_epsilon", undefined, "missing-key"],
    ["llama.attention.layer_norm_rms_epsilon", "1e-5", "bad-type"],
    ["llama.attention.layer_norm_rms_epsilon", { f32: 0 }, "bad-hparam"],
    ["llama.attention.layer_norm_rms_epsilon", { f32: NaN }, "bad-hparam"],
    ["llama.attention.layer_norm_rms_epsilon", { f32: Infinity }, "bad-hparam"],
    ["llama.rope.dimension_count", 3, "bad-hparam"],
    ["llama.rope.dimension_count", 10, "bad-hparam"],
    ["llama.rope.freq_base", { f32: 0 }, "bad-hparam"],
    ["llama.rope.scaling.type", "quux", "bad-hparam"],
    ["llama.rope.scaling.factor", { f32: -2 }, "bad-hparam"],
    ["llama.rope.scaling.original_context_length", 0, "bad-hparam"],
    ["llama.expert_count", 2000, "bad-hparam"],
    ["llama.expert_count", 4, "bad-hparam"], // none used
    ["llama.expert_used_count", 1, "bad-hparam"], // of none
    ["tokenizer.ggml.tokens", [], "vocab-mismatch"],
  ];
  test.each(bad)("%s = %j is refused with %s", (key, value, code) => {
    expect(() => llama({ [key]: value })).toThrow(
      withCode(
        code,
        code === "vocab-mismatch" ? "" : key.split(".").at(-1)!.replace("expert_count", "expert_"),
      ),
    );
  });
});

describe("llama weights", () => {
  const names = (change?: (list: Map<string, StoredTensor>) => void, p: Params = llama()): string[] => [
    ...loadTensors(p, weights(change)).keys(),
  ];
  const set =
    (name: string, ne: readonly number[], type: number = Type.F32) =>
    (list: Map<string, StoredTensor>): void =>
      void list.set(name, { name, type, ne });

  test("a file with all required weights passes, tied output or not", () => {
    expect(names()).toHaveLength(20);
    expect(names(set("output.weight", [32, N_VOCAB, 1, 1], Type.Q8_0))).toContain("output.weight");
  });

  test("biases, frequency factors and fused qkv are optional forms", () => {
    expect(names(set("blk.1.attn_q.bias", [32]))).toContain("blk.1.attn_q.bias");
    expect(names(set("rope_freqs.weight", [4]))).toContain("rope_freqs.weight");
    const fused = names((list) => {
      for (const part of ["q", "k", "v"]) list.delete(`blk.0.attn_${part}.weight`);
      set("blk.0.attn_qkv.weight", [32, 64])(list);
    });
    expect(fused).toContain("blk.0.attn_qkv.weight");
    const longrope = llama({ "llama.rope.scaling.type": "longrope" });
    expect(names(set("rope_factors_long.weight", [4]), longrope)).toContain("rope_factors_long.weight");
  });

  test("every required weight is missed by name", () => {
    for (const { name } of weights()) {
      expect(() => names((list) => list.delete(name)), name).toThrow(withCode("missing-tensor", name));
    }
  });

  test("a wrong shape names both shapes", () => {
    expect(() => names(set("blk.0.ffn_down.weight", [32, 48, 1, 1]))).toThrow(
      withCode("shape-mismatch", "blk.0.ffn_down.weight: expected [48,32], found [32,48]"),
    );
    expect(() => names(set("blk.0.attn_norm.weight", [31]))).toThrow(
      withCode("shape-mismatch", "expected [32], found [31]"),
    );
    expect(() => names(set("blk.0.attn_q.weight", [32, 32, 2]))).toThrow(
      withCode("shape-mismatch", "[32,32,2]"),
    );
    expect(() => names(set("token_embd.weight", [16, N_VOCAB]))).toThrow(
      withCode("shape-mismatch", "token_embd"),
    );
  });

  test("rows of the embedding and of the output are tokens", () => {
    expect(() => names(set("token_embd.weight", [32, N_VOCAB + 7]))).toThrow(
      withCode("vocab-mismatch", "token_embd"),
    );
    expect(() => names(set("output.weight", [32, N_VOCAB - 1]))).toThrow(
      withCode("vocab-mismatch", "output"),
    );
  });

  test("types that are no weights are refused, half-precision norms are not", () => {
    expect(names(set("blk.0.attn_norm.weight", [32], Type.F16))).toHaveLength(20);
    expect(() => names(set("blk.0.attn_norm.weight", [32], Type.Q8_0))).toThrow(
      withCode("unsupported-type", "Q8_0"),
    );
    for (const type of [Type.F64, Type.I32, Type.Q8_K, 4, 31, 9999]) {
      expect(() => names(set("blk.0.ffn_up.weight", [32, 48], type))).toThrow(
        withCode("unsupported-type", "blk.0.ffn_up.weight"),
      );
    }
  });

  test("a tensor that is not of the architecture is refused by name", () => {
    expect(() => names(set("blk.0.attn_q_norm.weight", [8]))).toThrow(
      withCode("unsupported-arch", "blk.0.attn_q_norm.weight"),
    );
  });

  test("experts come in stacks, in place of the feed-forward block", () => {
    const moe = llama({ "llama.expert_count": 8, "llama.expert_used_count": 2 });
    const stacks = (list: Map<string, StoredTensor>): void => {
      for (const blk of ["blk.0.", "blk.1."]) {
        for (const part of ["gate", "up", "down"]) list.delete(`${blk}ffn_${part}.weight`);
        set(`${blk}ffn_gate_inp.weight`, [32, 8])(list);
        for (const part of ["gate", "up"]) set(`${blk}ffn_${part}_exps.weight`, [32, 48, 8])(list);
        set(`${blk}ffn_down_exps.weight`, [48, 32, 8])(list);
      }
    };
    expect(names(stacks, moe)).toContain("blk.1.ffn_down_exps.weight");
    expect(() => names(undefined, moe)).toThrow(withCode("missing-tensor", "blk.0.ffn_gate_inp.weight"));
    const without = (name: string): unknown =>
      names((list) => {
        stacks(list);
        list.delete(name);
      }, moe);
    expect(() => without("blk.1.ffn_up_exps.weight")).toThrow(
      withCode("missing-tensor", "blk.1.ffn_up_exps.weight"),
    );
  });

  test("heads rotated in part are refused once the shapes fit", () => {
    const p = llama({ "llama.rope.dimension_count": 4 });
    expect(() => names(undefined, p)).toThrow(withCode("bad-hparam", "rope.dimension_count"));
  });
});
