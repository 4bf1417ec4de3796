// Embeddings and reranking: pooling, normalisation, batches, long texts, memory, errors.
import { expect, test } from "vitest";
import { FormatError } from "../ts/errors.ts";
import {
  type Embedding,
  type EmbedOptions,
  loadModel,
  type LoadOptions,
  type Model,
} from "../ts/llm/index.ts";
import { Type } from "../ts/types.ts";
import { modelFile } from "./arch/golden.ts";
import { remake } from "./arch/remake.ts";
import { samples, stream } from "./core.ts";
import { describeWith } from "./data.ts";

async function withModel<T>(
  name: string | Uint8Array<ArrayBuffer>,
  use: (m: Model) => Promise<T>,
  options: LoadOptions = {},
): Promise<T> {
  const input = typeof name === "string" ? modelFile(name) : name;
  const model = await loadModel(input, { nThreads: 1, ...options });
  try {
    return await use(model);
  } finally {
    model.dispose();
  }
}

const vectors = (all: readonly Embedding[]): number[][] => all.map(({ embedding }) => Array.from(embedding));
const length = (v: readonly number[]): number => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0));
const code = (name: string): unknown => expect.objectContaining({ code: name }) as unknown;

/** Token ids of texts of the given lengths, from `low` on. */
function textsOf(lengths: readonly number[], low = 5, high = 100): number[][] {
  const next = stream(9);
  return lengths.map((n) =>
    Array.from({ length: n }, () => low + Math.floor(((next() + 1) / 2) * (high - low))),
  );
}

// More tokens, and more texts, than one batch takes.
const TEXTS = textsOf([1, 3, 31, 32, 33, 90, 2, 5, 64, ...new Array<number>(40).fill(4), 100, 7]);

describeWith("golden", "embeddings", () => {
  const EMBEDDERS =
    "bert-mean bert-cls bert-f16 bert-rank nomic-bert jina-bert-v2 modern-bert gemma-embedding qwen3-embed-last lfm2";

  test.each(EMBEDDERS.split(" "))(
    "%s: texts give the same bits one by one, together, reversed and on two threads",
    (name) =>
      withModel(name, async (model) => {
        const together = vectors(await model.embed(TEXTS));
        const alone: number[][] = [];
        for (const text of TEXTS) alone.push(...vectors(await model.embed([text])));
        expect(together).toEqual(alone);
        const reversed = vectors(await model.embed(TEXTS.toReversed()));
        expect(reversed.toReversed()).toEqual(alone);
        const threads = await withModel(name, async (m) => vectors(await m.embed(TEXTS)), { nThreads: 2 });
        expect(threads).toEqual(alone);
      }),
  );

  test("a small batch grows for a longer text and gives the same bits", async () => {
    const want = await withModel("bert-mean", async (m) => vectors(await m.embed(TEXTS)));
    await withModel(
      "bert-mean",
      async (model) => {
        expect(vectors(await model.embed(TEXTS.slice(0, 2)))).toEqual(want.slice(0, 2));
        expect(vectors(await model.embed(TEXTS))).toEqual(want);
      },
      { nBatch: 16 },
    );
  });

  test("pooling is the file's unless another is asked for, and always made of the rows", () =>
    withModel("bert-mean", async (model) => {
      const [text] = textsOf([9]);
      const pooled = async (options: EmbedOptions): Promise<number[]> =>
        vectors(await model.embed([text!], options))[0]!;
      const rows = await pooled({ pooling: "none" });
      const e = model.params.nEmbd;
      expect(rows).toHaveLength(9 * e);
      expect(await pooled({ pooling: "cls", normalize: false })).toEqual(rows.slice(0, e));
      expect(await pooled({ pooling: "last", normalize: false })).toEqual(rows.slice(-e));
      const mean = Array.from({ length: e }, (_, i) => {
        let sum = 0;
        for (let r = 0; r < 9; r++) sum += rows[r * e + i]!;
        return Math.fround(sum / 9);
      });
      expect(await pooled({ normalize: false })).toEqual(mean);
      const unit = await pooled({});
      expect(length(unit)).toBeCloseTo(1, 6);
      unit.forEach((x, i) => expect(x).toBeCloseTo(mean[i]! / length(mean), 6));
    }));

  test("a long text is refused by its number, or cut as asked with its end kept", () =>
    withModel("bert-mean", async (model) => {
      expect(model.nCtx).toBe(128);
      const [long] = textsOf([200]);
      await expect(model.embed([[5], long!])).rejects.toThrow(code("context-full"));
      await expect(model.embed([[5], long!])).rejects.toThrow("text 1 has 200 tokens, the context 128");
      const [cut] = await model.embed([long!], { truncate: true });
      expect(cut).toMatchObject({ nTokens: 128, truncated: true });
      const kept = [...long!.slice(0, 127), long!.at(-1)!];
      expect(vectors([cut!])).toEqual(vectors(await model.embed([kept])));
    }));

  test("texts are tokenised with their frame, control texts stay text", () =>
    withModel("bert-mean", async (model) => {
      const text = "the hot word [SEP] is on";
      const ids = model.tokenize(text, { parseSpecial: false });
      const [byText] = await model.embed([text]);
      expect(byText!.nTokens).toBe(ids.length);
      expect(vectors([byText!])).toEqual(vectors(await model.embed([ids])));
      expect(await model.embed([])).toEqual([]);
    }));

  test("wrong calls are refused with typed errors, and the model goes on", () =>
    withModel("bert-mean", async (model) => {
      await expect(model.embed([[]])).rejects.toThrow(code("bad-data"));
      await expect(model.embed([[133]])).rejects.toThrow(code("token-range"));
      await expect(model.embed(["a"], { pooling: "max" as "mean" })).rejects.toThrow(code("bad-param"));
      await expect(model.embed(["a"], { normalise: true } as EmbedOptions)).rejects.toThrow(TypeError);
      await expect(model.embed(["a"], { pooling: "rank" })).rejects.toThrow(FormatError); // no classifier in the file
      await expect(model.embed(["a"], { signal: AbortSignal.abort(new Error("no")) })).rejects.toThrow("no");
      await expect(model.complete("a")).rejects.toThrow(code("unsupported"));
      await expect(model.evaluate("a b c")).rejects.toThrow(code("unsupported"));
      await expect(model.createContext()).rejects.toThrow(code("unsupported"));
      expect((await model.embed(["a"]))[0]!.embedding).toHaveLength(48);
    }));

  test("ten thousand embeddings leave the memory as it was", () =>
    withModel("bert-cls", async (model) => {
      const texts = textsOf(new Array<number>(500).fill(3));
      await model.embed(texts);
      const { total } = model.memory();
      for (let i = 0; i < 20; i++) expect(await model.embed(texts)).toHaveLength(500);
      expect(model.memory().total).toBe(total);
    }));

  test("calls at the same time wait for each other", () =>
    withModel("bert-mean", async (model) => {
      const want = vectors(await model.embed(TEXTS));
      const all = await Promise.all(TEXTS.map((text) => model.embed([text])));
      expect(vectors(all.flat())).toEqual(want);
      const failing = model.embed([[999]]);
      const good = model.embed([TEXTS[1]!]);
      await expect(failing).rejects.toThrow(code("token-range"));
      expect(vectors(await good)).toEqual([want[1]]);
    }));

  test("an embedding model that is a decoder also generates, in a context made when it is asked", () =>
    withModel("qwen3-embed-last", async (model) => {
      expect(model.memory().kv).toBe(0);
      const before = vectors(await model.embed(TEXTS));
      const { tokens } = await model.complete([5, 6, 7], { temperature: 0, maxTokens: 4, ignoreEos: true });
      expect(tokens).toHaveLength(4);
      expect(model.memory().kv).toBeGreaterThan(0);
      expect(vectors(await model.embed(TEXTS))).toEqual(before);
    }));

  test.each([
    "llama-gqa-tied",
    "gemma2",
    "gpt-oss-f32",
    "llama-moe",
    "gpt2",
    "phi3-longrope",
    "olmo2",
    "lfm2",
  ])("%s, a model for text, embeds too: the last row is what its logits are made of", (name) =>
    withModel(
      name,
      async (model) => {
        const texts = textsOf([1, 2, 9, 33]);
        const [rows] = vectors(await model.embed([texts[3]!], { pooling: "none" }));
        const e = model.params.nEmbd;
        // a token sees what is before it only: rows of a beginning are the beginning of the rows
        const [begin] = vectors(await model.embed([texts[3]!.slice(0, 20)], { pooling: "none" }));
        expect(begin).toEqual(rows!.slice(0, 20 * e));
        const options = { pooling: "last", normalize: false } as const;
        const last = vectors(await model.embed(texts, options));
        expect(last[3]).toEqual(rows!.slice(-e));
        const mean = vectors(await model.embed(texts, { pooling: "mean" }));
        mean.forEach((v) => expect(length(v)).toBeCloseTo(1, 6));
      },
      { kvType: Type.F32 },
    ),
  );
});

/** A qwen3 reranker: the embedding file with rows for "yes" and "no", and a template. */
function qwenReranker(template?: string): Uint8Array<ArrayBuffer> {
  const rows = samples(2 * 32, stream(3));
  return remake(
    "qwen3-embed-last",
    {
      "qwen3.pooling_type": 4,
      "qwen3.classifier.output_labels": ["yes", "no"],
      "tokenizer.chat_template.rerank": template,
    },
    [{ name: "cls.output.weight", type: Type.F32, ne: [32, 2], data: new Uint8Array(rows.buffer) }],
  );
}

describeWith("golden", "reranking", () => {
  const documents = ["a hot word", "the on is", "hello there, world", ""];

  test("a pair is start, query, separator, document; the best score comes first", () =>
    withModel("bert-rank", async (model) => {
      const { bos, sep } = model.tokenizer.ids;
      const ids = (text: string): number[] => model.tokenize(text, { addSpecial: false });
      const pairs = documents.map((d) => [bos, ...ids("the word"), sep, ...ids(d)]);
      const scores = vectors(await model.embed(pairs)).map((v) => v[0]!);
      const ranked = await model.rerank("the word", documents);
      expect(ranked.map(({ score }) => score)).toEqual(scores.toSorted((a, b) => b - a));
      for (const { index, score, nTokens } of ranked) {
        expect(score).toBe(scores[index]);
        expect(nTokens).toBe(pairs[index]!.length);
      }
      expect(await model.rerank("the word", documents, { topN: 2 })).toEqual(ranked.slice(0, 2));
      expect(await model.rerank("the word", [])).toEqual([]);
    }));

  test("the file's template takes both texts, and a softmax over its labels gives a probability", () =>
    withModel(qwenReranker("<|im_start|>{query}\n\n{document}<|im_end|>"), async (model) => {
      const ids = model.tokenize("<|im_start|>what\n\nthat<|im_end|>", { addSpecial: false });
      const [both] = vectors(await model.embed([ids]));
      expect(both![0]! + both![1]!).toBeCloseTo(1, 6);
      const [only] = await model.rerank("what", ["that"]);
      expect(only).toEqual({ index: 0, score: both![0], nTokens: ids.length, truncated: false });
      // what stands in a text is not a place of the template
      const [odd] = await model.rerank("{document}", ["$& {query}"]);
      const oddIds = model.tokenize("<|im_start|>{document}\n\n$& {query}<|im_end|>", { addSpecial: false });
      expect(odd!.nTokens).toBe(oddIds.length);
    }));

  test("a long document is refused by its number, or cut to what fits", () =>
    withModel("bert-rank", async (model) => {
      const long = "word ".repeat(200);
      await expect(model.rerank("the", ["on", long])).rejects.toThrow(
        "query and document 1 have 203 tokens, the context 128",
      );
      await expect(model.rerank("the", ["on", long])).rejects.toThrow(code("context-full"));
      const ranked = await model.rerank("the", ["on", long], { truncate: true });
      const cut = ranked.find(({ index }) => index === 1)!;
      expect(cut.truncated).toBe(true);
      expect(cut.nTokens).toBeGreaterThan(120);
      expect(cut.nTokens).toBeLessThanOrEqual(128);
      await expect(model.rerank(long, ["on"], { truncate: true })).rejects.toThrow(code("context-full"));
    }));

  test("models without a classifier and wrong options are refused", async () => {
    await withModel("llama-gqa-tied", async (model) => {
      await expect(model.rerank("a", ["b"])).rejects.toThrow(code("unsupported"));
    });
    await withModel("bert-rank", async (model) => {
      await expect(model.rerank("a", ["b"], { topN: -1 })).rejects.toThrow(code("bad-param"));
      await expect(model.rerank("a", ["b"], { topK: 1 } as object)).rejects.toThrow(TypeError);
    });
  });

  test("a file that says rank but has no classifier is refused when it is loaded", async () => {
    const bytes = remake("bert-mean", { "bert.pooling_type": 4 });
    await expect(loadModel(bytes, { nThreads: 1 })).rejects.toThrow("cls.output.weight: missing");
    const other = remake("bert-mean", { "bert.pooling_type": 9 });
    await expect(loadModel(other, { nThreads: 1 })).rejects.toThrow(code("bad-hparam"));
  });
});
