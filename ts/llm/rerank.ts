// Reranking: a query and documents in, the documents in the order of how well they answer out.

import { checkOptions, GraphError } from "../errors.ts";
import type { Embedder, TokenizedText } from "./embed.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** Options of `rerank`. */
export interface RerankOptions {
  /** documents given at most, the best first; default all */
  readonly topN?: number | undefined;
  /** cut documents that do not fit the context with the query instead of refusing them; default false */
  readonly truncate?: boolean | undefined;
  /** ends the call with the signal's reason */
  readonly signal?: AbortSignal | undefined;
}

/** Their names. */
export const RERANK_OPTIONS: readonly string[] = ["topN", "truncate", "signal"];

/** A document and how well it answers. */
export interface RankedDocument {
  /** position in the list that was given */
  readonly index: number;
  /** first score of the classifier: a logit, or a probability where the model ends in a softmax */
  readonly score: number;
  /** tokens that were computed: query, document and what stands between them */
  readonly nTokens: number;
  /** the document was cut to the context */
  readonly truncated: boolean;
}

/** What a model's reranking rests on. */
export interface RerankModel {
  readonly embedder: Embedder;
  readonly tokenizer: Tokenizer;
  /** text with {query} and {document}, when the file has one */
  readonly template: string | undefined;
  readonly nCtx: number;
}

/**
 * Scores of documents, the best first; those of equal score in their order.
 *
 * @throws {GraphError} context-full for a pair that is too long unless it may be cut, unsupported for a model without a
 *   classifier, bad-param; TypeError for a misspelt option
 */
export async function rerank(
  model: RerankModel,
  query: string,
  documents: readonly string[],
  options: RerankOptions = {},
): Promise<RankedDocument[]> {
  checkOptions("rerank", options, RERANK_OPTIONS);
  const { topN = documents.length, truncate = false, signal } = options;
  if (!Number.isInteger(topN) || topN < 0) {
    throw new GraphError("bad-param", `rerank: topN is ${topN}, expected a count`, { actual: topN });
  }
  const pairs = documents.map((document, i) => pairOf(model, query, document, i, truncate));
  const scored = await model.embedder.embedTokens(pairs, { pooling: "rank", normalize: false, signal });
  const ranked = scored.map(({ embedding, nTokens, truncated }, index) => ({
    index,
    score: embedding[0]!,
    nTokens,
    truncated,
  }));
  return ranked.sort((a, b) => b.score - a.score || a.index - b.index).slice(0, topN);
}

// Query and document as one text. What is too long is cut off the document.
function pairOf(
  { tokenizer, template, nCtx }: RerankModel,
  query: string,
  document: string,
  index: number,
  truncate: boolean,
): TokenizedText {
  const idsWith = (text: string): number[] =>
    template === undefined ? framed(tokenizer, query, text) : filled(tokenizer, template, query, text);
  const ids = idsWith(document);
  if (ids.length <= nCtx) return { ids, truncated: false };
  const cut = truncate ? longestThatFits(document, nCtx, idsWith) : undefined;
  if (cut !== undefined) return { ids: cut, truncated: true };
  throw new GraphError(
    "context-full",
    `rerank: query and document ${index} have ${ids.length} tokens, the context ${nCtx}`,
    { expected: nCtx, actual: ids.length },
  );
}

// Ids of the longest beginning of a text with which they are at most `nCtx`; undefined when not even none of it fits.
function longestThatFits(
  text: string,
  nCtx: number,
  idsWith: (text: string) => number[],
): number[] | undefined {
  const points = Array.from(text);
  let best: number[] | undefined;
  let low = 0;
  let high = points.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const ids = idsWith(points.slice(0, middle).join(""));
    if (ids.length <= nCtx) best = ids;
    if (ids.length <= nCtx) low = middle + 1;
    else high = middle - 1;
  }
  return best;
}

// [start] query [end] [separator] document [end], each where the vocabulary adds it; a missing end is a separator.
function framed(tokenizer: Tokenizer, query: string, document: string): number[] {
  const { bos, eos, sep } = tokenizer.ids;
  const plain = (text: string): number[] =>
    tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
  const start = tokenizer.addBos ? [bos] : [];
  const end = tokenizer.addEos && !tokenizer.framed ? [eos >= 0 ? eos : sep] : [];
  const between = tokenizer.addSep ? [sep] : [];
  return [...start, ...plain(query), ...end, ...between, ...plain(document), ...end];
}

// The template with its places filled, as one text; nothing is added.
function filled(tokenizer: Tokenizer, template: string, query: string, document: string): number[] {
  const text = template.replace(/\{(query|document)\}/g, (_, name) => (name === "query" ? query : document));
  return tokenizer.encode(text, { addSpecial: false });
}
