// Log-probabilities of tokens under the model, before anything is sampled.

/** A token and its log-probability, natural logarithm. */
export interface TokenProbability {
  readonly id: number;
  readonly logprob: number;
}

/** A chosen token, and those that were the most likely in its place. */
export interface TokenLogprobs extends TokenProbability {
  /** best first; of equals the lowest id */
  readonly top: readonly TokenProbability[];
}

/** Most alternatives that can be asked for. */
export const MAX_TOP = 100;

/**
 * Log-softmax of the logits, in double precision: of `id` and of the `n` most likely tokens.
 *
 * @param nVocab ids are 0..nVocab-1
 */
export function logprobsOf(logits: Float32Array, nVocab: number, id: number, n: number): TokenLogprobs {
  let max = -Infinity;
  for (let i = 0; i < nVocab; i++) max = Math.max(max, logits[i]!);
  let sum = 0;
  for (let i = 0; i < nVocab; i++) sum += Math.exp(logits[i]! - max);
  const logSum = Math.log(sum);
  const entry = (i: number): TokenProbability => ({ id: i, logprob: logits[i]! - max - logSum });
  return { ...entry(id), top: best(logits, nVocab, n).map(entry) };
}

// Ids of the n largest, by insertion.
function best(logits: Float32Array, nVocab: number, n: number): number[] {
  const ids: number[] = [];
  for (let i = 0; i < nVocab; i++) {
    if (n === 0 || (ids.length === n && logits[i]! <= logits[ids[n - 1]!]!)) continue;
    if (ids.length === n) ids.pop();
    let at = ids.length;
    while (at > 0 && logits[ids[at - 1]!]! < logits[i]!) at--;
    ids.splice(at, 0, i);
  }
  return ids;
}
