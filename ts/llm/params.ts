// Hyper-parameters of a model, read from its metadata and checked. Rules shared by all architectures.

import { FormatError } from "../errors.ts";
import { hparam, MAX_DIM, positive, ranged, within } from "./hparam.ts";
import { type Metadata, missingKey } from "./metadata.ts";
import { type LayerParams, layersAlike } from "./layer_params.ts";
import { readRopeScaling, type RopeScaling } from "./rope_scaling.ts";

export type { LayerParams } from "./layer_params.ts";
export type { Rope, RopeScaling } from "./rope_scaling.ts";

const MAX_LAYERS = 512;
const MAX_EXPERTS = 1024;

/** How the rows of a text become one vector. */
export type Pooling = "none" | "mean" | "cls" | "last" | "rank";

/** In the order of GGUF's pooling_type. */
export const POOLINGS: readonly Pooling[] = ["none", "mean", "cls", "last", "rank"];

/** Attention over compressed keys and values (deepseek2). */
export interface LatentParams {
  /** width of the compressed queries; 0 = they are not */
  readonly nQ: number;
  /** width of the compressed keys and values */
  readonly nKv: number;
  /** head size of queries and keys, the rotated part included */
  readonly headDimK: number;
  readonly headDimV: number;
  /** keys are cached compressed, and values are their beginning */
  readonly absorbed: boolean;
}

/** How a router's scores become the weights of experts. */
export interface RoutingParams {
  readonly gating: "softmax" | "sigmoid" | "softmax_weight";
  /** the weights of the chosen are divided by their sum */
  readonly norm: boolean;
  /** factor of the weights */
  readonly scale: number;
  /** experts stand in so many groups, of which so many are chosen from; 1 = no groups */
  readonly nGroups: number;
  readonly nGroupsUsed: number;
}

/** Sizes and constants of a model, in GGUF's words. Frozen. */
export interface Params {
  /** general.architecture, also the prefix of its keys */
  readonly arch: string;
  readonly nEmbd: number;
  readonly nLayer: number;
  /** layers of the file past these, which predict further tokens and are not used */
  readonly nPredictLayers: number;
  readonly nHead: number;
  readonly nHeadKv: number;
  /** width of the feed-forward block; of one expert where all layers have experts of that width */
  readonly nFf: number;
  /** leading dimensions of a head that are rotated; 0 = none */
  readonly nRot: number;
  readonly headDimK: number;
  readonly headDimV: number;
  readonly nVocab: number;
  readonly nCtxTrain: number;
  /** positions have learned vectors: there are none past nCtxTrain */
  readonly learnedPositions: boolean;
  /** a token sees only what is before it; false for encoders */
  readonly causal: boolean;
  readonly normEps: number;
  readonly ropeBase: number;
  readonly ropeScale: RopeScaling;
  readonly layers: readonly LayerParams[];
  readonly nExpert: number;
  readonly nExpertUsed: number;
  /** width of one expert */
  readonly nFfExpert: number;
  /** width of the expert that every token uses; 0 = none */
  readonly nFfShared: number;
  /** layers before the first with experts */
  readonly nDenseLayers: number;
  /** absent: as the architecture says */
  readonly routing: RoutingParams | undefined;
  /** absent: keys and values are not compressed */
  readonly latent: LatentParams | undefined;
  /** every so many layers one has experts; 0 = the file's tensors decide for all */
  readonly expertsEvery: number;
  /** factor of the token embeddings */
  readonly embdScale: number;
  /** factor of the attention scores */
  readonly attnScale: number;
  /** attention scores are c tanh(z / c); 0 = none */
  readonly attnSoftcap: number;
  /** ALiBi: largest bias of the scores by distance; 0 = none */
  readonly maxBias: number;
  /** factor of what a layer adds */
  readonly residualScale: number;
  /** factor of the logits */
  readonly logitScale: number;
  /** logits are c tanh(z / c); 0 = none */
  readonly logitSoftcap: number;
  /** queries grow with s ln of how often the trained context fits before them; 0 = none */
  readonly temperatureScale: number;
  /** attention and feed-forward block of a layer read the same rows */
  readonly parallelResidual: boolean;
  /** how embeddings are made of rows */
  readonly pooling: Pooling;
  /** scores that a classifier gives */
  readonly nLabels: number;
}

/** What an architecture says of keys that others name differently or leave out. */
export interface ParamRules {
  /** the norm's epsilon */
  readonly eps?: "layer_norm_rms_epsilon" | "layer_norm_epsilon";
  /** false: heads are not rotated */
  readonly rope?: boolean;
  /** the last of the layers counted may be for predicting further tokens */
  readonly predicted?: boolean;
  /** in place of attention.head_count_kv */
  readonly nHeadKv?: number | undefined;
  /** the head size where no key says it */
  readonly headDim?: number | undefined;
  /** what yarn multiplies queries and keys with */
  readonly magnitude?: (factor: number) => number;
}

/**
 * The key prefix of the file: general.architecture.
 *
 * @throws {FormatError} missing-key, bad-type
 */
export function readArch(meta: Metadata): string {
  return meta.str("general.architecture");
}

/**
 * Keys that most models have. Scales are 1, caps and biases 0: an architecture with others puts them over these.
 *
 * @throws {FormatError} missing-key, bad-type, bad-hparam, vocab-mismatch
 */
export function readParams(meta: Metadata, arch: string, rules: ParamRules = {}): Params {
  const { eps = "layer_norm_rms_epsilon", magnitude } = rules;
  const nBlocks = ranged(meta, `${arch}.block_count`, 1, MAX_LAYERS);
  const predictKey = `${arch}.nextn_predict_layers`;
  const nPredictLayers = within(predictKey, rules.predicted ? meta.u32(predictKey, 0) : 0, 0, nBlocks - 1);
  const nLayer = nBlocks - nPredictLayers;
  const nEmbd = ranged(meta, `${arch}.embedding_length`, 1, MAX_DIM);
  const nCtxTrain = ranged(meta, `${arch}.context_length`, 1, 2 ** 31 - 1);
  const heads = readHeads(meta, arch, nLayer, nEmbd, rules);
  const base = positive(`${arch}.rope.freq_base`, meta.f32(`${arch}.rope.freq_base`, 10000));
  const scaling = readRopeScaling(meta, arch, nCtxTrain, magnitude);
  const layer = { window: 0, rope: heads.nRot === 0 ? undefined : { base, scaling } };
  const nFf = meta.perLayer(`${arch}.feed_forward_length`, nLayer);
  return freeze({
    arch,
    nEmbd,
    nLayer,
    nPredictLayers,
    nCtxTrain,
    learnedPositions: false,
    ...heads,
    nFf: within(`${arch}.feed_forward_length`, nFf, 1, MAX_DIM),
    nVocab: readVocabSize(meta, arch),
    causal: meta.bool(`${arch}.attention.causal`, true),
    normEps: positive(`${arch}.attention.${eps}`, meta.f32(`${arch}.attention.${eps}`)),
    ropeBase: base,
    ropeScale: scaling,
    layers: layersAlike(nLayer, layer),
    ...readExperts(meta, arch),
    nFfExpert: nFf,
    nFfShared: 0,
    nDenseLayers: 0,
    routing: undefined,
    latent: undefined,
    expertsEvery: 0,
    embdScale: 1,
    attnScale: 1 / Math.sqrt(heads.headDimK),
    attnSoftcap: 0,
    maxBias: 0,
    residualScale: 1,
    logitScale: 1,
    logitSoftcap: 0,
    temperatureScale: 0,
    parallelResidual: false,
    pooling: readPooling(meta, arch),
    nLabels: meta.strings(`${arch}.classifier.output_labels`)?.length ?? 1,
  });
}

/** Parameters with some of them replaced. */
export function withParams(p: Params, more: Partial<Params>): Params {
  return freeze({ ...p, ...more });
}

// Plain data, frozen to the bottom.
function freeze(p: Params): Params {
  for (const layer of p.layers) Object.freeze(layer.rope);
  for (const layer of p.layers) Object.freeze(layer);
  Object.freeze(p.layers);
  return Object.freeze(p);
}

/**
 * Widths of the experts, for an architecture that has them always. Without a key for it an expert is one of the parts
 * of the feed-forward block.
 *
 * @throws {FormatError} bad-type, bad-hparam
 */
export function expertParams(meta: Metadata, p: Params): Params {
  const key = (name: string): string => `${p.arch}.${name}`;
  within(key("expert_count"), p.nExpert, 1, MAX_EXPERTS);
  const stated = meta.u32(key("expert_feed_forward_length"), 0);
  const nFfExpert = stated === 0 ? Math.floor(p.nFf / p.nExpertUsed) : stated;
  const nFfShared = meta.u32(key("expert_shared_feed_forward_length"), 0);
  return withParams(p, {
    nFfExpert: within(key("expert_feed_forward_length"), nFfExpert, 1, MAX_DIM),
    nFfShared: within(key("expert_shared_feed_forward_length"), nFfShared, 0, MAX_DIM),
  });
}

type Heads = Pick<Params, "nHead" | "nHeadKv" | "headDimK" | "headDimV" | "nRot">;

function readHeads(meta: Metadata, arch: string, nLayer: number, nEmbd: number, rules: ParamRules): Heads {
  const key = (name: string): string => `${arch}.${name}`;
  const nHead = within(
    key("attention.head_count"),
    meta.perLayer(key("attention.head_count"), nLayer),
    1,
    MAX_DIM,
  );
  const nHeadKv = within(
    key("attention.head_count_kv"),
    rules.nHeadKv ?? meta.perLayer(key("attention.head_count_kv"), nLayer, nHead),
    1,
    nHead,
  );
  if (nHead % nHeadKv !== 0)
    throw hparam(key("attention.head_count_kv"), nHeadKv, `a divisor of head_count ${nHead}`);
  const perHead = rules.headDim ?? (meta.has(key("attention.key_length")) ? 1 : nEmbd / nHead);
  if (perHead !== Math.floor(perHead))
    throw hparam(key("attention.head_count"), nHead, `a divisor of embedding_length ${nEmbd}`);
  const headDimK = within(
    key("attention.key_length"),
    meta.u32(key("attention.key_length"), perHead),
    1,
    MAX_DIM,
  );
  const headDimV = within(
    key("attention.value_length"),
    meta.u32(key("attention.value_length"), rules.headDim ?? Math.floor(nEmbd / nHead)),
    1,
    MAX_DIM,
  );
  const nRot = rules.rope === false ? 0 : readRot(meta, arch, headDimK);
  return { nHead, nHeadKv, headDimK, headDimV, nRot };
}

function readRot(meta: Metadata, arch: string, headDimK: number): number {
  const key = `${arch}.rope.dimension_count`;
  const nRot = within(key, meta.u32(key, headDimK), 2, headDimK);
  if (nRot % 2 !== 0) throw hparam(key, nRot, "even");
  return nRot;
}

/**
 * Length of the token list, which decides; `vocab_size` counts only without one. More ids than texts: some id could not
 * be printed, so the file contradicts itself. (Fewer is met in files with added tokens; the embedding's rows are checked.)
 */
function readVocabSize(meta: Metadata, arch: string): number {
  const sizeKey = `${arch}.vocab_size`;
  const tokensKey = "tokenizer.ggml.tokens";
  const tokens = meta.strings(tokensKey);
  if (tokens === undefined) {
    if (!["none", "no_vocab"].includes(meta.str("tokenizer.ggml.model", "llama")))
      throw missingKey(tokensKey);
    return ranged(meta, sizeKey, 1, MAX_DIM);
  }
  const stated = meta.u32(sizeKey, tokens.length);
  if (tokens.length > 0 && stated <= tokens.length) return tokens.length;
  const message =
    tokens.length === 0
      ? `${tokensKey}: empty`
      : `${sizeKey}: ${stated}, but the token list has ${tokens.length} entries`;
  throw new FormatError("vocab-mismatch", message, { key: sizeKey, expected: tokens.length, actual: stated });
}

function readExperts(meta: Metadata, arch: string): Pick<Params, "nExpert" | "nExpertUsed"> {
  const nExpert = within(`${arch}.expert_count`, meta.u32(`${arch}.expert_count`, 0), 0, MAX_EXPERTS);
  const usedKey = `${arch}.expert_used_count`;
  const nExpertUsed = within(usedKey, meta.u32(usedKey, 0), nExpert > 0 ? 1 : 0, nExpert);
  return { nExpert, nExpertUsed };
}

function readPooling(meta: Metadata, arch: string): Pooling {
  const key = `${arch}.pooling_type`;
  return POOLINGS[within(key, meta.u32(key, 0), 0, POOLINGS.length - 1)]!;
}
