// Architecture deepseek2: DeepSeek V2, V2.5, V3 and R1. Keys and values are compressed; the cache holds the compressed
// ones, over which queries are taken. Old files hold what decompresses them instead, and the cache whole heads.
//
// Shapes: scope.ts; C = compressed width, R = rotated part of a head, N = its rest, Dv = head size of the values.

import type { Tensor } from "../../graph/tensor.ts";
import { hparam, notNegative, within } from "../hparam.ts";
import type { Metadata } from "../metadata.ts";
import {
  expertParams,
  type LatentParams,
  type Params,
  readParams,
  type RoutingParams,
  withParams,
} from "../params.ts";
import { yarnMagnitude } from "../rope_scaling.ts";
import type { Arch } from "./arch.ts";
import type { Layer } from "./layer.ts";

/** The stored multiplier of yarn's magnitude is a tenth of it. */
const STORED = 0.1;
/** In the order of GGUF's expert_gating_func, from 1 on. */
const GATINGS: readonly RoutingParams["gating"][] = ["softmax", "sigmoid", "softmax_weight"];

export const deepseek2: Arch = {
  params(meta) {
    const m = meta.f32("deepseek2.rope.scaling.yarn_log_multiplier", 0) / STORED;
    const magnitude = (factor: number): number => (m === 0 ? yarnMagnitude(factor) : 1);
    const base = readParams(meta, "deepseek2", { magnitude, predicted: true });
    const p = base.nExpert > 0 ? expertParams(meta, base) : base;
    const latent = readLatent(meta, p);
    const stretched = p.ropeScale.ext > 0 ? p.ropeScale.factor : 1;
    const own = p.ropeScale.attnFactor * (1 + 0.1 * Math.log(stretched)); // what the operator makes of it
    const mu = own * yarnMagnitude(stretched, m);
    const shared = meta.u32("deepseek2.expert_shared_count", 0);
    return withParams(p, {
      latent,
      attnScale: (mu * mu) / Math.sqrt(latent.headDimK),
      nFfShared: within("deepseek2.expert_shared_count", shared, 0, 64) * p.nFfExpert,
      nDenseLayers: p.nExpert > 0 ? meta.u32("deepseek2.leading_dense_block_count", 0) : p.nLayer,
      routing: readRouting(meta, p),
    });
  },

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const h = layer.rmsNorm(x, "attn_norm");
      let a = p.latent!.absorbed ? absorbed(layer, h) : decompressed(layer, h); // [Dv H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      const f = layer.rmsNorm(x, "ffn_norm");
      x = g.add(layer.index < p.nDenseLayers ? layer.swiglu(f) : routed(layer, f), x); // [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};

function readLatent(meta: Metadata, p: Params): LatentParams {
  const key = (name: string): string => `deepseek2.attention.${name}`;
  const absorbed = meta.has(key("key_length_mla"));
  const headDimK = absorbed ? meta.u32(key("key_length_mla")) : p.headDimK;
  const headDimV = absorbed ? meta.u32(key("value_length_mla")) : p.headDimV;
  const nKv = within(key("kv_lora_rank"), meta.u32(key("kv_lora_rank")), 1, 2 ** 20);
  within(absorbed ? key("key_length_mla") : key("key_length"), headDimK, p.nRot + 1, 2 ** 20);
  within(key("value_length_mla"), headDimV, 1, 2 ** 20);
  if (absorbed) {
    within(key("head_count_kv"), p.nHeadKv, 1, 1);
    within(key("key_length"), p.headDimK, nKv + p.nRot, nKv + p.nRot);
  }
  return { nQ: meta.u32(key("q_lora_rank"), 0), nKv, headDimK, headDimV, absorbed };
}

function readRouting(meta: Metadata, p: Params): RoutingParams {
  const key = (name: string): string => `deepseek2.${name}`;
  const gatingKey = key("expert_gating_func");
  const gating = GATINGS[within(gatingKey, meta.u32(gatingKey, 1), 1, GATINGS.length) - 1]!;
  const nGroups = within(key("expert_group_count"), meta.u32(key("expert_group_count"), 1) || 1, 1, 1024);
  if (p.nExpert % nGroups !== 0) {
    throw hparam(key("expert_group_count"), nGroups, `a divisor of expert_count ${p.nExpert}`);
  }
  const usedKey = key("expert_group_used_count");
  const scaleKey = key("expert_weights_scale");
  return {
    gating,
    norm: meta.bool(key("expert_weights_norm"), false),
    scale: notNegative(scaleKey, meta.f32(scaleKey, 0)) || 1,
    nGroups,
    nGroupsUsed: nGroups > 1 ? within(usedKey, meta.u32(usedKey, 0), 1, nGroups - 1) : 1,
  };
}

function routed(layer: Layer, x: Tensor): Tensor {
  const y = layer.experts(x, layer.p.routing!);
  return layer.p.nFfShared > 0 ? layer.g.add(y, layer.sharedExpert(x)) : y;
}

// Parts of the queries, unrotated [N, H, T] and rotated [R, H, T]; compressed keys and values [C, T]; the rotated part
// that the keys of all heads share [R, 1, T].
function parts(layer: Layer, h: Tensor): { nope: Tensor; rot: Tensor; c: Tensor; shared: Tensor } {
  const { g, p } = layer;
  const { nQ, nKv, headDimK } = p.latent!;
  const [nTokens, nNope] = [h.ne[1], headDimK - p.nRot];
  const full = layer.has("attn_q.weight")
    ? layer.linear(h, "attn_q", p.nHead * headDimK)
    : layer.linear(
        layer.rmsNorm(layer.linear(h, "attn_q_a", nQ), "attn_q_a_norm"),
        "attn_q_b",
        p.nHead * headDimK,
      );
  const q = layer.heads(full, headDimK); //                                      [N + R, H, T]
  const kv = layer.linear(h, "attn_kv_a_mqa", nKv + p.nRot); //                  [C + R, T]
  const nb = [q.nb[1], q.nb[2]];
  return {
    nope: g.view(q, [nNope, p.nHead, nTokens], { nb }),
    rot: layer.rope(g.view(q, [p.nRot, p.nHead, nTokens], { nb, offset: 4 * nNope })),
    c: layer.rmsNorm(g.view(kv, [nKv, nTokens], { nb: [kv.nb[1]] }), "attn_kv_a_norm"),
    shared: layer.rope(g.view(kv, [p.nRot, 1, nTokens], { nb: [kv.nb[1], kv.nb[1]], offset: 4 * nKv })),
  };
}

// Queries go through what decompresses keys, and results through what decompresses values: [Dv H, T].
function absorbed(layer: Layer, h: Tensor): Tensor {
  const { g, p } = layer;
  const { nKv, headDimK, headDimV } = p.latent!;
  const { nope, rot, c, shared } = parts(layer, h);
  const toKeys = layer.matrix("attn_k_b.weight", headDimK - p.nRot, nKv, p.nHead); // [N, C, H]
  const toValues = layer.matrix("attn_v_b.weight", nKv, headDimV, p.nHead); //     [C, Dv, H]
  const q = g.concat(perHead(layer, toKeys, nope), rot, 0); //                    [C + R, H, T]
  const k = g.concat(g.reshape(c, [nKv, 1, c.ne[1]]), shared, 0); //              [C + R, 1, T]
  const o = layer.heads(layer.latentAttention(q, k, nKv), nKv); //                [C, H, T]
  return layer.rowsOf(g.cont(perHead(layer, toValues, o)));
}

// Each head [n, H, T] through its own matrix [n, m, H]: [m, H, T]. Heads come last in between, where a live count
// would be taken for theirs.
function perHead({ g }: Layer, w: Tensor, x: Tensor): Tensor {
  const { live } = g;
  g.live = undefined;
  const y = g.permute(g.mulMat(w, g.permute(x, [0, 2, 1, 3])), [0, 2, 1, 3]);
  g.live = live;
  return y;
}

// Keys and values decompressed, and attention as ever: [Dv H, T].
function decompressed(layer: Layer, h: Tensor): Tensor {
  const { g, p } = layer;
  const { headDimK, headDimV } = p.latent!;
  const { nope, rot, c, shared } = parts(layer, h);
  const [nNope, nTokens] = [headDimK - p.nRot, h.ne[1]];
  const kv = layer.heads(layer.linear(c, "attn_kv_b", p.nHead * (nNope + headDimV)), nNope + headDimV);
  const nb = [kv.nb[1], kv.nb[2]];
  const keys = g.view(kv, [nNope, p.nHead, nTokens], { nb }); //                  [N, H, T]
  const v = g.view(kv, [headDimV, p.nHead, nTokens], { nb, offset: 4 * nNope }); // [Dv, H, T]
  const all = g.repeat(shared, [p.nRot, p.nHead, nTokens]); //                    [R, H, T]
  return layer.attention({ q: g.concat(nope, rot, 0), k: g.concat(keys, all, 0), v: g.cont(v) });
}
