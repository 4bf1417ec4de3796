// Runs one golden model and says what is wrong with the result.
import { FormatError } from "../../ts/errors.ts";
import { loadModel, type LoadOptions, type Model } from "../../ts/llm/index.ts";
import { Type } from "../../ts/types.ts";
import { best, type CausalCase, type EmbeddingCase, type GoldenCase, modelFile, nmse } from "./golden.ts";
import { readCase, type Tolerance } from "./golden.ts";

/** Logits of a causal case, in the order of its `logits` keys; then of every decode step, the last one included. */
export interface CausalRows {
  readonly prompt: readonly Float32Array[];
  readonly steps: readonly Float32Array[];
}

/** Why the case fails; undefined when it passes; null when its architecture or a type of its weights is not built. */
export async function runCase(name: string): Promise<string | undefined | null> {
  const golden = readCase(name);
  const model = await open(name);
  if (model === null) return null;
  try {
    return judgeTexts(golden, model) ?? (await judge(golden, model));
  } finally {
    model.dispose();
  }
}

/** The model as the reference ran it, keys and values in F32. */
export async function start(name: string, options: LoadOptions = {}): Promise<Model> {
  return await loadModel(modelFile(name), { nThreads: 1, kvType: Type.F32, ...options });
}

// Null where it is not built.
async function open(name: string): Promise<Model | null> {
  try {
    return await start(name);
  } catch (error) {
    if (error instanceof FormatError && /^unsupported-(arch|type)$/.test(error.code)) return null;
    throw error;
  }
}

async function judge(golden: GoldenCase, model: Model): Promise<string | undefined> {
  return golden.kind === "causal" ? judgeCausal(golden, model) : judgeEmbedding(golden, model);
}

/** The file's own tokenizer gives the ids that the reference got. */
function judgeTexts({ texts }: GoldenCase, model: Model): string | undefined {
  for (const { text, ids } of texts) {
    const got = model.tokenize(text);
    if (got.join() !== ids.join()) return `ids of ${JSON.stringify(text)} are ${got.join()}`;
  }
  return undefined;
}

async function judgeCausal(golden: CausalCase, model: Model): Promise<string | undefined> {
  const { logits, logits_last, ideal, tolerance, decode } = golden;
  const got = await causalRows(golden, model);
  const rows = [...got.prompt, got.steps.at(-1)!];
  const all = (r: CausalCase | NonNullable<CausalCase["ideal"]>): readonly number[][] =>
    [...Object.values(r.logits), r.logits_last] as number[][];
  const far = judgeRows(rows, all({ ...golden, logits, logits_last }), ideal && all(ideal), tolerance);
  if (far !== undefined) return far;
  const wrong = decode.findIndex(
    ({ id, margin }, i) => margin > (tolerance.greedy_margin ?? 0) && best(got.steps[i]!) !== id,
  );
  return wrong < 0 ? undefined : `decode step ${wrong}: best id ${best(got.steps[wrong]!)}`;
}

/** Logits after each listed position of the prompt, and through the listed ids. */
export async function causalRows(golden: CausalCase, model: Model): Promise<CausalRows> {
  const prompt: Float32Array[] = [];
  for (const position of Object.keys(golden.logits)) {
    prompt.push((await forced(model, golden.prompt.slice(0, Number(position) + 1), []))[0]!);
  }
  const ids = golden.decode.map(({ id }) => id);
  return { prompt, steps: await forced(model, golden.prompt, ids) };
}

/** Logits after a prompt and after each of `ids`, whatever the model would have chosen. */
async function forced(
  model: Model,
  prompt: readonly number[],
  ids: readonly number[],
): Promise<Float32Array[]> {
  const rows: Float32Array[] = [];
  const onLogits = (logits: Float32Array): void => {
    rows.push(logits.slice());
    logits.fill(0);
    logits[ids[rows.length - 1] ?? 0] = 1;
  };
  await model.complete(prompt, { temperature: 0, ignoreEos: true, maxTokens: ids.length + 1, onLogits });
  return rows;
}

/** Rows are looked at too, for which the files state no limit: that of the table form of GELU, generously. */
const ROWS_LIMIT = 1e-5;

async function judgeEmbedding(golden: EmbeddingCase, model: Model): Promise<string | undefined> {
  const { inputs, pooled, hidden_first_input: rows, ideal, tolerance } = golden;
  const together = await model.embed(inputs, { normalize: false });
  const vectors = together.map(({ embedding }) => embedding);
  const far = judgeRows(vectors, pooled, ideal?.pooled, tolerance);
  if (far !== undefined) return far;
  for (const [i, input] of inputs.entries()) {
    const [alone] = await model.embed([input], { normalize: false });
    if (alone!.embedding.join() !== vectors[i]!.join()) return `input ${i} alone gives another vector`;
  }
  const [all] = await model.embed(inputs.slice(0, 1), { pooling: "none" });
  const hidden = nmse([all!.embedding], [rows.flat()]);
  return hidden <= ROWS_LIMIT ? undefined : `rows of the first input: nmse ${hidden.toExponential(2)}`;
}

function judgeRows(
  rows: readonly ArrayLike<number>[],
  reference: readonly ArrayLike<number>[],
  ideal: readonly ArrayLike<number>[] | undefined,
  tolerance: Tolerance,
): string | undefined {
  const far = nmse(rows, reference);
  if (far <= tolerance.reference_nmse_max) return undefined;
  const fromIdeal = ideal === undefined ? Infinity : nmse(rows, ideal);
  if (fromIdeal <= (tolerance.ideal_nmse_max ?? 0)) return undefined;
  return `nmse ${far.toExponential(2)} from the reference, ${fromIdeal.toExponential(2)} from the ideal`;
}
