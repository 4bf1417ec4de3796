// Hyper-parameters of a model, read from its metadata and checked. Rules shared by all architectures.

import { FormatError } from "../errors.ts";
import { type Metadata, missingKey } from "./metadata.ts";

const MAX_LAYERS = 512;
const MAX_EXPERTS = 1024;
/** A dimension above this cannot be meant: products of two stay exact in a double. */
const MAX_DIM = 2 ** 26;

/** How positions are stretched beyond the trained context. */
export interface RopeScaling {
  readonly type: "none" | "linear" | "longrope" | "yarn";
  /** stretch; 1 = none */
  readonly factor: number;
  /** context length the model was trained with before stretching */
  readonly nCtxOrig: number;
  /** the rope operator's magnitude parameter; the operator itself adds 1 + 0.1 ln(factor) when `ext` is not 0 */
  readonly attnFactor: number;
  readonly betaFast: number;
  readonly betaSlow: number;
  /** share of extrapolation: 1 for yarn, else 0 */
  readonly ext: number;
}

/** Sizes and constants of a model, in GGUF's words. Frozen. */
export interface Params {
  /** general.architecture, also the prefix of its keys */
  readonly arch: string;
  readonly nEmbd: number;
  readonly nLayer: number;
  readonly nHead: number;
  readonly nHeadKv: number;
  /** width of the feed-forward block; with experts, of one expert */
  readonly nFf: number;
  /** leading dimensions of a head that are rotated */
  readonly nRot: number;
  readonly headDimK: number;
  readonly headDimV: number;
  readonly nVocab: number;
  readonly nCtxTrain: number;
  readonly rmsEps: number;
  readonly ropeBase: number;
  readonly ropeScale: RopeScaling;
  readonly nExpert: number;
  readonly nExpertUsed: number;
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
 * Keys that every decoder has.
 *
 * @throws {FormatError} missing-key, bad-type, bad-hparam, vocab-mismatch
 */
export function readParams(meta: Metadata, arch: string): Params {
  const nLayer = ranged(meta, `${arch}.block_count`, 1, MAX_LAYERS);
  const nEmbd = ranged(meta, `${arch}.embedding_length`, 1, MAX_DIM);
  const nCtxTrain = ranged(meta, `${arch}.context_length`, 1, 2 ** 31 - 1);
  const heads = readHeads(meta, arch, nLayer, nEmbd);
  return Object.freeze({
    arch,
    nEmbd,
    nLayer,
    nCtxTrain,
    ...heads,
    nFf: within(
      `${arch}.feed_forward_length`,
      meta.perLayer(`${arch}.feed_forward_length`, nLayer),
      1,
      MAX_DIM,
    ),
    nVocab: readVocabSize(meta, arch),
    rmsEps: positive(
      `${arch}.attention.layer_norm_rms_epsilon`,
      meta.f32(`${arch}.attention.layer_norm_rms_epsilon`),
    ),
    ropeBase: positive(`${arch}.rope.freq_base`, meta.f32(`${arch}.rope.freq_base`, 10000)),
    ropeScale: readRopeScaling(meta, arch, nCtxTrain),
    ...readExperts(meta, arch),
  });
}

type Heads = Pick<Params, "nHead" | "nHeadKv" | "headDimK" | "headDimV" | "nRot">;

function readHeads(meta: Metadata, arch: string, nLayer: number, nEmbd: number): Heads {
  const key = (name: string): string => `${arch}.${name}`;
  const nHead = within(
    key("attention.head_count"),
    meta.perLayer(key("attention.head_count"), nLayer),
    1,
    MAX_DIM,
  );
  const nHeadKv = within(
    key("attention.head_count_kv"),
    meta.perLayer(key("attention.head_count_kv"), nLayer, nHead),
    1,
    nHead,
  );
  if (nHead % nHeadKv !== 0)
    throw hparam(key("attention.head_count_kv"), nHeadKv, `a divisor of head_count ${nHead}`);
  const perHead = meta.has(key("attention.key_length")) ? 1 : nEmbd / nHead;
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
    meta.u32(key("attention.value_length"), Math.floor(nEmbd / nHead)),
    1,
    MAX_DIM,
  );
  const nRot = within(
    key("rope.dimension_count"),
    meta.u32(key("rope.dimension_count"), headDimK),
    2,
    headDimK,
  );
  if (nRot % 2 !== 0) throw hparam(key("rope.dimension_count"), nRot, "even");
  return { nHead, nHeadKv, headDimK, headDimV, nRot };
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

function readRopeScaling(meta: Metadata, arch: string, nCtxTrain: number): RopeScaling {
  const key = (name: string): string => `${arch}.rope.scaling.${name}`;
  const type = meta.str(key("type"), "linear");
  if (type !== "none" && type !== "linear" && type !== "yarn" && type !== "longrope") {
    throw hparam(key("type"), `"${type}"`, "none, linear, yarn or longrope");
  }
  const stored = meta.f32(key("factor"), meta.f32(`${arch}.rope.scale_linear`, 0));
  const factor = type === "none" || stored === 0 ? 1 : positive(key("factor"), stored);
  const ext = type === "yarn" ? 1 : 0;
  return Object.freeze({
    type,
    factor,
    nCtxOrig: within(
      key("original_context_length"),
      meta.u32(key("original_context_length"), nCtxTrain),
      1,
      2 ** 31 - 1,
    ),
    attnFactor:
      positive(key("attn_factor"), meta.f32(key("attn_factor"), 1)) *
      yarnCorrection(key("factor"), factor, ext),
    betaFast: positive(key("yarn_beta_fast"), meta.f32(key("yarn_beta_fast"), 32)),
    betaSlow: positive(key("yarn_beta_slow"), meta.f32(key("yarn_beta_slow"), 1)),
    ext,
  });
}

/** The operator multiplies by 1 + 0.1 ln(factor) at any factor, the rule wants that only above 1. */
function yarnCorrection(key: string, factor: number, ext: number): number {
  const magnitude = 1 + 0.1 * Math.log(factor);
  if (ext === 0 || factor >= 1) return 1;
  if (magnitude <= 0) throw hparam(key, factor, "above e^-10 for yarn");
  return 1 / magnitude;
}

function readExperts(meta: Metadata, arch: string): Pick<Params, "nExpert" | "nExpertUsed"> {
  const nExpert = within(`${arch}.expert_count`, meta.u32(`${arch}.expert_count`, 0), 0, MAX_EXPERTS);
  const usedKey = `${arch}.expert_used_count`;
  const nExpertUsed = within(usedKey, meta.u32(usedKey, 0), nExpert > 0 ? 1 : 0, nExpert);
  return { nExpert, nExpertUsed };
}

function ranged(meta: Metadata, key: string, lowest: number, highest: number): number {
  return within(key, meta.u32(key), lowest, highest);
}

/** @throws {FormatError} bad-hparam when `x` is not in lowest..highest */
export function within(key: string, x: number, lowest: number, highest: number): number {
  if (x >= lowest && x <= highest) return x;
  throw hparam(key, x, lowest === highest ? `${lowest}` : `${lowest}..${highest}`);
}

function positive(key: string, x: number): number {
  if (x > 0) return x;
  throw hparam(key, x, "above 0");
}

/** The error for a value that its rule forbids. */
export function hparam(key: string, actual: number | string, rule: string): FormatError {
  return new FormatError("bad-hparam", `${key}: ${actual}, expected ${rule}`, {
    key,
    expected: rule,
    actual,
  });
}
