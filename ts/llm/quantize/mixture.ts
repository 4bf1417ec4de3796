// Which type each tensor of a file gets: the mixtures that llama.cpp makes under the same names.

import { type Type as ElementType, Type, typeInfo } from "../../types.ts";

const { F16, BF16, F32, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 } = Type;
const { Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4 } = Type;

/** One kind of file: the type of most tensors, and its number in `general.file_type`. */
export interface Mixture {
  readonly name: string;
  readonly type: ElementType;
  readonly fileType: number;
}

const MIXTURES: Readonly<Record<string, readonly [type: ElementType, fileType: number]>> = {
  F32: [F32, 0],
  F16: [F16, 1],
  Q4_0: [Q4_0, 2],
  Q4_1: [Q4_1, 3],
  Q8_0: [Q8_0, 7],
  Q5_0: [Q5_0, 8],
  Q5_1: [Q5_1, 9],
  Q2_K: [Q2_K, 10],
  Q3_K_S: [Q3_K, 11],
  Q3_K_M: [Q3_K, 12],
  Q3_K_L: [Q3_K, 13],
  Q4_K_S: [Q4_K, 14],
  Q4_K_M: [Q4_K, 15],
  Q5_K_S: [Q5_K, 16],
  Q5_K_M: [Q5_K, 17],
  Q6_K: [Q6_K, 18],
  IQ4_NL: [IQ4_NL, 25],
  IQ4_XS: [IQ4_XS, 30],
  BF16: [BF16, 32],
  MXFP4_MOE: [MXFP4, 38],
};

/** Names without a size mean the middle one. */
const MIDDLE: Readonly<Record<string, string>> = { Q3_K: "Q3_K_M", Q4_K: "Q4_K_M", Q5_K: "Q5_K_M" };

/** Names of the mixtures. */
export const MIXTURE_NAMES: readonly string[] = Object.keys(MIXTURES);

/** @throws {TypeError} for a name that is none */
export function mixtureOf(name: string): Mixture {
  const upper = name.toUpperCase();
  const full = MIDDLE[upper] ?? upper;
  if (Object.hasOwn(MIXTURES, full)) {
    const [type, fileType] = MIXTURES[full]!;
    return { name: full, type, fileType };
  }
  throw new TypeError(`quantize: type "${name}", expected one of ${MIXTURE_NAMES.join(", ")}`);
}

/** What of a model decides. */
export interface ModelFacts {
  readonly arch: string;
  readonly nLayer: number;
  /** query heads that share one of keys and values */
  readonly nGqa: number;
  readonly nExpert: number;
  /** the file has a matrix for the logits of its own */
  readonly hasOutput: boolean;
  /** columns are weighed by importance */
  readonly weighed: boolean;
}

/** A tensor as far as it decides. */
export interface TensorFacts {
  readonly name: string;
  readonly type: ElementType;
  readonly ne: readonly number[];
}

// Never quantised: norms, biases, routers, tables that are added, and filters of convolutions.
const KEPT =
  /_norm\.weight$|ffn_gate_inp|position_embd|token_types|conv|altup|laurel|time_mix|attn_rel_b|_enc/;

/**
 * Type of one tensor in a file of this mixture.
 *
 * @param pure every matrix has the type that the mixture is named after
 */
export function tensorType(
  tensor: TensorFacts,
  mixture: Mixture,
  model: ModelFacts,
  pure: boolean = false,
): ElementType {
  const { name, ne } = tensor;
  const matrix = ne.findLastIndex((n) => n !== 1) >= 1 && name.endsWith("weight") && !KEPT.test(name);
  if (!matrix) return tensor.type;
  if (typeInfo(mixture.type)!.blockSize === 1) return mixture.type;
  return fitting(pure ? mixture.type : wanted(tensor, mixture, model), ne[0]!);
}

// What rows of that length can have in place of a type whose blocks do not fit.
function fitting(type: ElementType, length: number): ElementType {
  const fits = (t: ElementType): boolean => length % typeInfo(t)!.blockSize === 0;
  if (fits(type)) return type;
  const smaller = type === Q4_K ? Q5_0 : type === Q5_K ? Q5_1 : type === Q6_K ? Q8_0 : IQ4_NL;
  return fits(smaller) ? smaller : F16;
}

function wanted(tensor: TensorFacts, mixture: Mixture, model: ModelFacts): ElementType {
  const { name, ne } = tensor;
  const { type } = mixture;
  if (mixture.name === "MXFP4_MOE") return (ne[2] ?? 1) > 1 ? MXFP4 : Q8_0;
  if (name === "output.weight" || (name === "token_embd.weight" && !model.hasOutput)) {
    return model.arch === "falcon" || ne[0]! % 256 !== 0 || type === Q8_0 ? Q8_0 : Q6_K;
  }
  const layer = Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? 0);
  if (name.includes("attn_v.weight")) return valueType(mixture, layer, model);
  if (name.includes("attn_k.weight") && model.nExpert === 8) return Q8_0;
  if (name.includes("ffn_down")) return downType(mixture, layer, model);
  if (name.includes("attn_output.weight")) return outputType(mixture, model);
  if (name.includes("attn_qkv.weight")) return QKV[mixture.name] ?? type;
  return type;
}

const QKV: Readonly<Record<string, ElementType>> = { Q3_K_M: Q4_K, Q3_K_L: Q4_K, Q4_K_M: Q5_K, Q5_K_M: Q6_K };

/** Layers that get more bits: the first and the last eighth, and every third between. */
function moreBits(layer: number, n: number): boolean {
  const eighth = Math.floor(n / 8);
  return layer < eighth || layer >= Math.floor((7 * n) / 8) || (layer - eighth) % 3 === 2;
}

function valueType(
  { name, type }: Mixture,
  layer: number,
  { nLayer, nGqa, nExpert }: ModelFacts,
): ElementType {
  if (nExpert === 8) return Q8_0;
  switch (name) {
    case "Q2_K":
      return nGqa >= 4 ? Q4_K : Q3_K;
    case "Q3_K_M":
      return layer < 2 ? Q5_K : Q4_K;
    case "Q3_K_L":
      return Q5_K;
    case "Q4_K_S":
      return layer < 4 ? Q5_K : type;
    case "Q4_K_M":
    case "Q5_K_M":
      return moreBits(layer, nLayer) ? Q6_K : type;
    case "IQ4_NL":
    case "IQ4_XS":
      return nGqa >= 4 ? Q5_K : type;
    default:
      return type;
  }
}

function downType({ name, type }: Mixture, layer: number, model: ModelFacts): ElementType {
  const { arch, nLayer, weighed } = model;
  const falcon = arch === "falcon";
  const more = moreBits(layer, nLayer);
  const early = layer < Math.floor(nLayer / 8);
  switch (name) {
    case "Q2_K":
      return Q3_K;
    case "Q3_K_M":
      return layer < Math.floor(nLayer / 16) ? Q5_K : !falcon || more ? Q4_K : type;
    case "Q3_K_L":
      return falcon ? Q4_K : Q5_K;
    case "Q4_K_M":
      if (falcon) return layer < Math.floor(nLayer / 16) ? Q6_K : more ? Q5_K : type;
      return more ? Q6_K : type;
    case "Q5_K_M":
      return more ? Q6_K : type;
    case "Q4_K_S":
      return early && !falcon ? Q5_K : type;
    case "IQ4_NL":
    case "IQ4_XS":
      return early && !weighed ? Q5_K : type;
    case "Q4_0":
      return early && weighed ? Q4_1 : type;
    case "Q5_0":
      return early && weighed ? Q5_1 : type;
    default:
      return type;
  }
}

function outputType({ name, type }: Mixture, { arch, nExpert }: ModelFacts): ElementType {
  if (arch === "falcon") return name === "Q3_K_L" ? Q4_K : type;
  if (nExpert === 8) return /^(Q2_K|Q3_K_[SM]|Q4_K_[SM]|IQ4_NL|IQ4_XS)$/.test(name) ? Q5_K : type;
  const more: Readonly<Record<string, ElementType>> = { Q2_K: Q3_K, Q3_K_M: Q4_K, Q3_K_L: Q5_K };
  return more[name] ?? type;
}
