// A network under construction: what comes before the first layer and after the last.

import type { Tensor } from "../../graph/tensor.ts";
import type { Params } from "../params.ts";
import { Layer } from "./layer.ts";
import { type Parts, Scope } from "./scope.ts";

/** Contexts are counted in such steps when the factors of longrope are chosen. */
const CTX_STEP = 256;

/** Longrope has two sets of factors: the long one is for contexts beyond the one it was trained for. */
export function wantsLongFactors(p: Params, nCtx: number): boolean {
  return CTX_STEP * Math.ceil(nCtx / CTX_STEP) > p.ropeScale.nCtxOrig;
}

export class Net extends Scope {
  constructor(parts: Parts) {
    super(parts, "");
  }

  layers(): Layer[] {
    return Array.from({ length: this.p.nLayer }, (_, i) => new Layer(this.parts, i));
  }

  /** Embeddings of the batch's tokens: [E, T]. */
  embeddings(): Tensor {
    const x = this.g.getRows(this.#tokenTable(), this.parts.batch.tokens);
    return this.scaled(x, this.p.embdScale);
  }

  /** Learned vectors of the positions: [E, T]. */
  positionEmbeddings(): Tensor {
    const ne = [this.p.nEmbd, this.p.nCtxTrain];
    const table = this.parts.weights.get({ name: "position_embd.weight", use: "table", ne });
    return this.g.getRows(table, this.parts.batch.positions);
  }

  /** W x for a matrix whose size is the file's own: [any, S]. */
  resized(x: Tensor, name: string): Tensor {
    return this.linear(x, name, this.parts.weights.rows(`${name}.weight`));
  }

  /** The first row of the token types, which every token of a text has: [E]. */
  firstTokenType(): Tensor {
    const { nEmbd } = this.p;
    const n = this.parts.weights.rows("token_types.weight");
    const table = this.parts.weights.get({ name: "token_types.weight", use: "vector", ne: [nEmbd, n] });
    return this.g.view(table, [nEmbd]);
  }

  /** s x; x itself when s is 1. */
  scaled(x: Tensor, s: number): Tensor {
    return s === 1 ? x : this.g.scale(x, s);
  }

  /**
   * Divisors of the rotation's frequencies [R / 2], for all layers: those of the file, or of the two sets of longrope
   * the long one when a text can be longer than the model was trained for.
   */
  ropeFactors(): Tensor | undefined {
    const n = this.p.nRot / 2;
    const get = (name: string): Tensor | undefined => (this.has(name) ? this.vector(name, n) : undefined);
    const freqs = get("rope_freqs.weight");
    const long = get("rope_factors_long.weight");
    const short = get("rope_factors_short.weight");
    return freqs ?? (wantsLongFactors(this.p, this.parts.nCtx) ? long : short);
  }

  /** W_out x: [V, O]; the matrix of the embeddings when the file has no other. */
  logits(x: Tensor): Tensor {
    return this.#logits(x, this.has("output.weight") ? this.#outputTable() : this.#tokenMatrix());
  }

  /** The same where the embeddings are always used. */
  tiedLogits(x: Tensor): Tensor {
    return this.#logits(x, this.#tokenMatrix());
  }

  /** The same where the matrix is never that of the embeddings. */
  untiedLogits(x: Tensor): Tensor {
    return this.#logits(x, this.#outputTable());
  }

  #logits(x: Tensor, out: Tensor): Tensor {
    const { g, p } = this;
    let y = g.mulMat(out, x); //                                                 [V, O]
    if (this.has("output.bias")) y = g.add(y, this.vector("output.bias", p.nVocab));
    y = this.scaled(y, p.logitScale);
    const cap = p.logitSoftcap;
    return cap === 0 ? y : g.scale(g.tanh(g.scale(y, 1 / cap)), cap);
  }

  #tokenTable(): Tensor {
    return this.#perToken("token_embd.weight", "table");
  }

  #tokenMatrix(): Tensor {
    return this.#perToken("token_embd.weight", "matrix");
  }

  #outputTable(): Tensor {
    return this.#perToken("output.weight", "matrix");
  }

  #perToken(name: string, use: "table" | "matrix"): Tensor {
    return this.parts.weights.get({ name, use, ne: [this.p.nEmbd, this.p.nVocab], perToken: true });
  }
}
