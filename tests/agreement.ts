// Does a model on one device say what it says on another? Token by token of a text that both are made to say, and by
// the likelihood of the text, with margins as on the CPU. For tests and for scripts in other runtimes.
import type { Model } from "../ts/llm/index.ts";

/** Margins of the mean likelihood against llama.cpp's, as on the CPU. */
const BARS: Readonly<Record<string, number>> = { f32: 0.0005, f16: 0.002, q8_0: 0.003, q4_0: 0.02 };
/**
 * Logits closer than this are near a tie: the CPU rounds activations to 8 bits for weights of Q8_0 and Q4_0, the GPU does
 * not. Over 124 positions on Mesa's software Vulkan F32 and F16 agree everywhere; Q8_0 differs at one, where the two are
 * 0.082 apart, Q4_0 at two, 0.030 and 0.035 apart.
 */
const TIES: Readonly<Record<string, number>> = { f32: 0.001, f16: 0.01, q8_0: 0.1, q4_0: 0.1 };

/** The files of stories260K. */
export const TYPES: readonly string[] = Object.keys(BARS);

/** Part of stories260K/reference.json. */
export interface Reference {
  readonly nll: readonly { model: string; text: string; mean_nll: number; n: number }[];
}

/** Logits before each of the first `n` tokens of a text, which the model is made to say. */
export async function forced(model: Model, text: string, n: number): Promise<Float32Array[]> {
  const ids = model.tokenizer.encode(text);
  const prompt = ids.slice(0, 2);
  const seen: Float32Array[] = [];
  const onLogits = (l: Float32Array): void => {
    seen.push(l.slice());
    l[ids[prompt.length + seen.length - 1]!] = 1e9;
  };
  await model.complete(prompt, { temperature: 0, maxTokens: n, onLogits });
  return seen;
}

/** Indices of the two largest. */
function topTwo(logits: Float32Array): readonly [number, number] {
  const order = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]!);
  return [order[0]!, order[1]!];
}

/** Positions at which the likeliest token is another, near-ties aside, in sentences. */
export function positionsApart(
  type: string,
  want: readonly Float32Array[],
  got: readonly Float32Array[],
): string[] {
  if (got.length !== want.length) return [`${got.length} positions, not ${want.length}`];
  const said: string[] = [];
  let compared = 0;
  want.forEach((logits, i) => {
    const [best, next] = topTwo(logits);
    if (logits[best]! - logits[next]! < TIES[type]!) return;
    compared++;
    const top = topTwo(got[i]!)[0];
    if (top !== best) said.push(`position ${i}: token ${top}, not ${best}`);
  });
  return compared < want.length / 2 ? [...said, `only ${compared} positions without a tie`] : said;
}

/** The text of a file's likelihood, and llama.cpp's. */
export function likelihoodOf(type: string, { nll }: Reference): Reference["nll"][number] {
  return nll.find((r) => r.model === type)!;
}

/** How far beyond the bar a mean likelihood is, in a sentence; none when it is within. */
export function likelihoodApart(type: string, meanNll: number, expected: number): string[] {
  const off = Math.abs(meanNll - expected);
  return off < BARS[type]! ? [] : [`likelihood off by ${off}`];
}
