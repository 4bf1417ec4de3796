// What changes logits before any filter: suppression, bias, penalties on recent tokens, the penalty on repetitions.

import { Dry, type Piece } from "./dry.ts";
import type { Settings } from "./sampling.ts";

const NONE = 0;
const SUPPRESSED = 1;
const BIASED = 2;

/** Notes tokens and adjusts logits. All memory is taken at construction. */
export class Penalties {
  readonly #s: Settings;
  readonly #recent: Int32Array;
  #nRecent = 0;
  /** how often a token is in `recent` */
  readonly #count: Uint32Array;
  /** per token, when there are any that are forbidden or biased */
  readonly #marks: Uint8Array;
  readonly #dry: Dry | undefined;
  /** logits are taken as they are */
  readonly idle: boolean;

  /**
   * @param suppressed ids that are never chosen
   * @param piece bytes of a token, to find the breakers of repetitions
   */
  constructor(nVocab: number, settings: Settings, suppressed: readonly number[], piece?: Piece) {
    const { repeatPenalty, frequencyPenalty, presencePenalty, repeatLastN, logitBias } = settings;
    const counts = repeatPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
    this.#s = settings;
    this.#recent = new Int32Array(counts ? repeatLastN : 0);
    this.#count = new Uint32Array(this.#recent.length > 0 ? nVocab : 0);
    this.#marks = new Uint8Array(suppressed.length + logitBias.size > 0 ? nVocab : 0);
    for (const id of logitBias.keys()) this.#marks[id] = BIASED;
    for (const id of suppressed) this.#marks[id] = SUPPRESSED;
    this.#dry = settings.dryMultiplier > 0 ? new Dry(nVocab, settings, piece) : undefined;
    this.idle = this.#count.length + this.#marks.length === 0 && this.#dry === undefined;
  }

  /** Notes a token, of the prompt or chosen. */
  accept(id: number): void {
    this.#dry?.accept(id);
    const size = this.#recent.length;
    if (size === 0) return;
    const slot = this.#nRecent % size;
    if (this.#nRecent >= size) this.#count[this.#recent[slot]!]!--;
    this.#recent[slot] = id;
    this.#count[id]!++;
    this.#nRecent++;
  }

  /** Forgets the tokens. */
  reset(): void {
    this.#nRecent = 0;
    this.#count.fill(0);
    this.#dry?.reset();
  }

  /** To be called once for each choice, before {@link adjusted}. */
  prepare(): void {
    this.#dry?.prepare();
  }

  /** The logit of a token; -Infinity when it must not be chosen. */
  adjusted(raw: number, id: number): number {
    if (this.idle) return raw;
    let x = raw;
    if (this.#marks.length > 0 && this.#marks[id] !== NONE) {
      if (this.#marks[id] === SUPPRESSED) return -Infinity;
      x += this.#s.logitBias.get(id)!;
    }
    if (this.#count.length > 0 && this.#count[id] !== 0) {
      const { repeatPenalty, frequencyPenalty, presencePenalty } = this.#s;
      x = x > 0 ? x / repeatPenalty : x * repeatPenalty;
      x -= this.#count[id]! * frequencyPenalty + presencePenalty;
    }
    return this.#dry === undefined ? x : x - this.#dry.penalty(id);
  }
}
