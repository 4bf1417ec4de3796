// Shapes and types of the synthetic models.
import { Type } from "../ts/types.ts";

/** Sizes of a network as real ones have them. */
export interface Shape {
  readonly arch: "llama" | "qwen2";
  readonly nEmbd: number;
  readonly nLayer: number;
  readonly nHead: number;
  readonly nHeadKv: number;
  readonly nFf: number;
  readonly nVocab: number;
  readonly freqBase: number;
  /** the embeddings serve as output matrix */
  readonly tied: boolean;
}

/** SmolLM2-135M, Qwen2.5-0.5B and TinyLlama-1.1B by their sizes. */
export const SHAPES: Readonly<Record<string, Shape>> = {
  "135m": {
    arch: "llama",
    nEmbd: 576,
    nLayer: 30,
    nHead: 9,
    nHeadKv: 3,
    nFf: 1536,
    nVocab: 49152,
    freqBase: 1e5,
    tied: true,
  },
  "0.5b": {
    arch: "qwen2",
    nEmbd: 896,
    nLayer: 24,
    nHead: 14,
    nHeadKv: 2,
    nFf: 4864,
    nVocab: 151936,
    freqBase: 1e6,
    tied: true,
  },
  "1.1b": {
    arch: "llama",
    nEmbd: 2048,
    nLayer: 22,
    nHead: 32,
    nHeadKv: 4,
    nFf: 5632,
    nVocab: 32000,
    freqBase: 1e4,
    tied: false,
  },
};

/** Names of mixes, and GGUF's number for each. */
export const FILE_TYPES: Readonly<Record<string, number>> = { F16: 1, Q4_0: 2, Q8_0: 7, Q4_K_M: 15 };

/** What a matrix is for: mixes keep more bits for some. */
export type Use = "embedding" | "output" | "v" | "down" | "other";

/** Type of a matrix in a mix; `i` is its layer. Rows that K-quants cannot cut fall back as upstream's quantiser has it. */
export function typeIn(mix: string, shape: Shape, use: Use, i: number, rowLength: number): Type {
  if (mix === "F16") return Type.F16;
  if (mix === "Q4_0") return Type.Q4_0;
  if (mix === "Q8_0") return Type.Q8_0;
  if (mix !== "Q4_K_M")
    throw new TypeError(`models: type ${mix}, expected ${Object.keys(FILE_TYPES).join(", ")}`);
  const n = shape.nLayer;
  const careful = i < n >> 3 || i >= (7 * n) >> 3 || (i - (n >> 3)) % 3 === 2;
  const six = use === "output" || ((use === "v" || use === "down") && careful);
  if (rowLength % 256 === 0) return six ? Type.Q6_K : Type.Q4_K;
  return six ? Type.Q8_0 : Type.Q5_0;
}
