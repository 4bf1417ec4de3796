// Architecture llama: its parameters and weights. Also Mistral 7B, SmolLM, TinyLlama, Yi and others that use the name.

import { FormatError } from "../../errors.ts";
import type { Metadata } from "../metadata.ts";
import { type Params, hparam, readParams } from "../params.ts";
import { type Has, type TensorSpec, missingTensor, optional, perToken, weight } from "../weights.ts";

/** @throws {FormatError} missing-key, bad-type, bad-hparam, vocab-mismatch */
export function llamaParams(meta: Metadata): Params {
  return readParams(meta, "llama");
}

/**
 * Heads are rotated as a whole.
 *
 * @throws {FormatError} bad-hparam
 */
export function llamaRules(p: Params): void {
  if (p.nRot !== p.headDimK)
    throw hparam("llama.rope.dimension_count", p.nRot, `the head size ${p.headDimK}`);
}

/** @throws {FormatError} unsupported-arch for experts (missing-tensor if the file has none) */
export function llamaTensors(p: Params, has: Has): TensorSpec[] {
  if (p.nExpert > 0) refuseExperts(p, has);
  const specs = [
    perToken(weight("token_embd.weight", p.nEmbd, p.nVocab)),
    weight("output_norm.weight", p.nEmbd),
    perToken(optional("output.weight", p.nEmbd, p.nVocab)), // absent: token_embd is used
  ];
  const factors =
    p.ropeScale.type === "longrope" ? ["rope_factors_long", "rope_factors_short"] : ["rope_freqs"];
  for (const name of factors) specs.push(optional(`${name}.weight`, p.nRot / 2));
  for (let i = 0; i < p.nLayer; i++)
    specs.push(...attention(p, `blk.${i}.`, has), ...feedForward(p, `blk.${i}.`));
  return specs;
}

function attention(p: Params, blk: string, has: Has): TensorSpec[] {
  const q = p.nHead * p.headDimK;
  const k = p.nHeadKv * p.headDimK;
  const v = p.nHeadKv * p.headDimV;
  const qkv: [string, number][] = has(`${blk}attn_qkv.weight`)
    ? [["attn_qkv", q + k + v]] // rows: all q, all k, all v
    : [
        ["attn_q", q],
        ["attn_k", k],
        ["attn_v", v],
      ];
  return [
    weight(`${blk}attn_norm.weight`, p.nEmbd),
    ...qkv.flatMap(([name, rows]) => matrix(blk + name, p.nEmbd, rows)),
    ...matrix(`${blk}attn_output`, p.nHead * p.headDimV, p.nEmbd),
  ];
}

function feedForward(p: Params, blk: string): TensorSpec[] {
  return [
    weight(`${blk}ffn_norm.weight`, p.nEmbd),
    ...matrix(`${blk}ffn_gate`, p.nEmbd, p.nFf),
    ...matrix(`${blk}ffn_up`, p.nEmbd, p.nFf),
    ...matrix(`${blk}ffn_down`, p.nFf, p.nEmbd),
  ];
}

/** A matrix that maps `from` values to `to`, and its optional bias. */
function matrix(name: string, from: number, to: number): TensorSpec[] {
  return [weight(`${name}.weight`, from, to), optional(`${name}.bias`, to)];
}

function refuseExperts(p: Params, has: Has): never {
  const router = "blk.0.ffn_gate_inp.weight";
  if (!has(router)) throw missingTensor(router, [p.nEmbd, p.nExpert]);
  throw new FormatError("unsupported-arch", `llama: ${p.nExpert} experts are not supported`, {
    key: "llama.expert_count",
  });
}
