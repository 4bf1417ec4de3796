// Faults that others shipped (corpus/public-bugs.json): the trials that no other file holds, and the index of all.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Tensor } from "../ts/graph/tensor.ts";
import { openGguf } from "../ts/gguf/index.ts";
import { loadModel } from "../ts/llm/index.ts";
import { Metadata } from "../ts/llm/metadata.ts";
import { loadTokenizer } from "../ts/llm/tokenizer.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { nmse } from "./core.ts";
import { dataDir, describeWith, readData, readJson } from "./data.ts";

async function withEngine(use: (engine: Engine) => Promise<void>): Promise<void> {
  const engine = await createEngine({ nThreads: 1 });
  try {
    await use(engine);
  } finally {
    engine.dispose();
  }
}

const numbers = async (t: Tensor): Promise<number[]> => [...((await t.read()) as Float32Array)];
const model = (type: string): string => join(dataDir("models"), `stories260K/stories260K-${type}.gguf`);

afterEach(() => vi.unstubAllGlobals());

describe("graphs", () => {
  test("M7: a tensor, its view and an in-place operator on the view all read right", () =>
    withEngine(async (engine) => {
      const g = engine.graph();
      const a = g.sqr(g.input("x", Type.F32, [8])).asOutput("a");
      const view = g.view(a, [4], { offset: 16 });
      const scaled = g.scale(view, 10).asOutput("scaled");
      const sum = g.add(a, a).asOutput("sum");
      g.plan();
      g.program().leafs[0]!.write([1, 2, 3, 4, 5, 6, 7, 8]);
      await g.compute();
      expect(await numbers(a)).toEqual([1, 4, 9, 16, 25, 36, 49, 64]);
      expect(await numbers(view)).toEqual([25, 36, 49, 64]);
      expect(await numbers(scaled)).toEqual([250, 360, 490, 640]);
      expect(await numbers(sum)).toEqual([2, 8, 18, 32, 50, 72, 98, 128]);
    }));

  test("N1: a fully masked row of softmax and of attention gives zeros", () =>
    withEngine(async (engine) => {
      const g = engine.graph();
      const x = g.input("x", Type.F32, [3, 2]);
      const mask = g.input("mask", Type.F32, [3, 2]);
      const soft = g.softMax(x, mask).asOutput();
      const q = g.input("q", Type.F32, [4, 2, 1]);
      const kv = g.input("kv", Type.F32, [4, 3, 1]);
      const attn = g.flashAttn({ q, k: kv, v: kv, mask: g.cast(mask, Type.F16), scale: 1 }).asOutput();
      g.plan();
      x.write([1, 2, 3, 1, 2, 3]);
      mask.write([0, 0, 0, -Infinity, -Infinity, -Infinity]);
      q.write([1, 2, 3, 4, 1, 2, 3, 4]);
      kv.write(Array.from({ length: 12 }, (_, i) => i / 12));
      await g.compute();
      expect((await numbers(soft)).slice(3)).toEqual([0, 0, 0]);
      const out = await numbers(attn);
      expect(out.every(Number.isFinite)).toBe(true);
      expect(out.slice(4)).toEqual([0, 0, 0, 0]);
    }));

  test("N2: products of q and k beyond the range of half precision stay right", () =>
    withEngine(async (engine) => {
      const g = engine.graph();
      const q = g.input("q", Type.F32, [128, 1, 1]);
      const k = g.input("k", Type.F16, [128, 2, 1]);
      const v = g.input("v", Type.F16, [128, 2, 1]);
      const y = g.flashAttn({ q, k, v, scale: 1 / Math.sqrt(128) }).asOutput();
      g.plan();
      q.write(new Float32Array(128).fill(300));
      k.write(new Float32Array(256).fill(300, 0, 128).fill(299.75, 128));
      v.write(new Float32Array(256).fill(1, 0, 128).fill(-1, 128));
      await g.compute();
      // scores 300*300*sqrt(128) and 300*299.75*sqrt(128): 848.5 apart, so the first cell has all the weight
      expect(await numbers(y)).toEqual(new Array(128).fill(1));
    }));

  test("N4: rows past 2048 of a half-precision table are found", () =>
    withEngine(async (engine) => {
      const g = engine.graph();
      const table = g.weight("table", Type.F16, [2, 5000]);
      const ids = g.input("ids", Type.I32, [4]);
      const rows = g.getRows(table, ids).asOutput();
      g.plan();
      table.write(Float32Array.from({ length: 10000 }, (_, i) => (i >> 1) % 1000));
      ids.write([2048, 2049, 4097, 4999]);
      await g.compute();
      expect(await numbers(rows)).toEqual([48, 48, 49, 49, 97, 97, 999, 999]);
    }));
});

describe("products", () => {
  test("N8: products of odd and large sizes equal float64", () =>
    withEngine(async (engine) => {
      const sizes = [1, 3, 31, 33, 64, 127, 500, 513, 1030];
      for (let i = 0; i < 27; i++) {
        const [m, n, k] = [sizes[i % 9]!, sizes[(4 * i + 1) % 9]!, sizes[(7 * i + 2) % 9]!];
        if (m * n * k > 3e7) continue;
        const g = engine.graph();
        const a = g.input("a", Type.F32, [k, m]);
        const b = g.input("b", Type.F32, [k, n]);
        const y = g.mulMat(a, b).asOutput();
        g.plan();
        const va = Float32Array.from({ length: k * m }, (_, j) => Math.sin(j * 1.3 + i));
        const vb = Float32Array.from({ length: k * n }, (_, j) => Math.cos(j * 0.7 - i));
        a.write(va);
        b.write(vb);
        await g.compute();
        expect(nmse(await numbers(y), product(va, vb, m, n, k))).toBeLessThan(1e-10);
        g.dispose();
      }
    }));
});

function product(a: Float32Array, b: Float32Array, m: number, n: number, k: number): Float64Array {
  const y = new Float64Array(m * n);
  for (let j = 0; j < n; j++)
    for (let i = 0; i < m; i++) {
      let sum = 0;
      for (let l = 0; l < k; l++) sum += a[i * k + l]! * b[j * k + l]!;
      y[j * m + i] = sum;
    }
  return y;
}

describe("surroundings", () => {
  test("B1: without shared memory there is one thread and one notice", async () => {
    vi.stubGlobal("SharedArrayBuffer", undefined);
    const warn = vi.fn();
    const engine = await createEngine({ nThreads: 4, logger: { warn } });
    expect(engine.nThreads).toBe(1);
    expect(warn).toHaveBeenCalledTimes(1);
    engine.dispose();
  });

  test("B14: a navigator.gpu whose getter throws does not touch the CPU", async () => {
    const navigator = Object.defineProperty({}, "gpu", {
      get: () => {
        throw new Error("no GPU for you");
      },
    });
    vi.stubGlobal("navigator", navigator);
    await withEngine(async (engine) => {
      const g = engine.graph();
      const y = g.sqr(g.input("x", Type.F32, [1])).asOutput();
      g.plan();
      g.program().leafs[0]!.write([3]);
      await g.compute();
      expect(await numbers(y)).toEqual([9]);
    });
  });
});

describeWith("vocab", "vocabularies", () => {
  test("T9: a file with a vocabulary and no model opens for tokenising", async () => {
    const { file } = await openGguf(readData("vocab", "ggml-vocab-llama-spm.gguf"));
    const tokenizer = loadTokenizer(new Metadata(file.metadata));
    expect(tokenizer.decode(tokenizer.encode("Hello, world"))).toBe("Hello, world");
    await expect(loadModel(readData("vocab", "ggml-vocab-llama-spm.gguf"))).rejects.toMatchObject({
      name: "FormatError",
    });
  });
});

describeWith("models", "models", () => {
  test("A6: loading and generating write nothing to the console", async () => {
    const spies = (["log", "info", "warn", "error", "debug"] as const).map((name) => vi.spyOn(console, name));
    const m = await loadModel(model("q4_0"), { nThreads: 2 });
    await m.complete("Once", { maxTokens: 3, temperature: 0 });
    m.dispose();
    for (const spy of spies) expect(spy).not.toHaveBeenCalled();
    vi.restoreAllMocks();
  });

  test("M1: one plan for 64 tokens serves 1 to 64 of them in any order, with the bits of one by one", async () => {
    const m = await loadModel(model("q8_0"), { nThreads: 1, nBatch: 64 });
    const text =
      "Once upon a time there was a boy who liked to play with his red ball in the big park. ".repeat(2);
    const ids = m.tokenize(text).slice(0, 64);
    const logits = async (n: number): Promise<Float32Array> => {
      let seen: Float32Array | undefined;
      const onLogits = (l: Float32Array): void => void (seen = l.slice());
      await m.complete(ids.slice(0, n), { maxTokens: 1, temperature: 0, onLogits });
      return seen!;
    };
    const memory = m.memory();
    const want = new Map<number, Float32Array>();
    for (let i = 0; i < 200; i++) {
      const n = 1 + ((i * 37) % 64);
      const got = await logits(n);
      expect(got).toEqual(want.get(n) ?? got);
      want.set(n, got);
    }
    expect(want.size).toBe(64);
    expect(m.memory()).toEqual(memory);
    m.dispose();
  });
});

/** Where the trial of each fault stands: a file and a part of a test's title; or the later work it belongs to. */
const INDEX: Record<string, readonly [file: string, title: string] | string> = {
  G1: ["gguf.test.ts", "refuses products that wrap in 64 bits"],
  G3: ["gguf.test.ts", "refuses counts that cannot fit"],
  G4: ["gguf.test.ts", "two tensors whose sizes add up past 2^32 and past 2^64"],
  G5: ["gguf.test.ts", "reads a vocabulary of 150,000 strings"],
  G6: ["gguf_corpus.test.ts", "refuses without allocating in proportion"],
  G8: ["gguf.test.ts", "tells scores stored as u8 from scores stored as f32"],
  G9: ["gguf.test.ts", "refuses a version-1 file of 24 bytes"],
  G10: ["gguf.test.ts", "refuses lengths near 2^64"],
  G12: ["gguf.test.ts", "refuses dims below zero and more than four of them"],
  G14: ["gguf.test.ts", "refuses unknown types"],
  G15: ["gguf.test.ts", "names the tensor that the file cuts"],
  G17: ["gguf.test.ts", "refuses array lengths whose bytes wrap in 32 or 64 bits"],
  G18: ["gguf.test.ts", "says what bytes that are not GGUF look like"],
  G19: ["gguf.test.ts", "finds a key named __proto__"],
  S1: "safetensors",
  S3: "safetensors",
  S5: ["gguf_source.test.ts", "of 5 GiB is opened without reading it"],
  M1: ["public_bugs.test.ts", "M1"],
  M3: ["engine.test.ts", "two graphs of equal shapes and other wiring"],
  M5: ["engine.test.ts", "a result in the middle is readable only when marked as output"],
  M6: ["engine.test.ts", "views of weights, of inputs and of results"],
  M7: ["public_bugs.test.ts", "M7"],
  M9: ["memory.test.ts", "a model keeps its logits while another is loaded beside it"],
  M10: ["memory.test.ts", "loading and disposing 50 times is flat"],
  M11: ["engine.test.ts", "a disposed engine throws a typed error, and dispose may be called twice"],
  M13: ["memory.test.ts", "a model keeps its logits while another is loaded beside it and memory grows"],
  M14: ["load_memory.test.ts", "loads in its own size, the plan and at most 16 MiB"],
  M15: ["llm.test.ts", "loads from a path, bytes, an ArrayBuffer and a Blob alike"],
  B1: ["public_bugs.test.ts", "B1"],
  B2: ["engine.test.ts", "the default thread count is sane"],
  B4: ["memory.test.ts", "a process ends by itself"],
  B5: ["engine.test.ts", "module given as bytes"],
  B6: ["engine.test.ts", "a wasm file that is none says what it is instead"],
  B8: ["gguf_url.test.ts", "heals by itself"],
  B10: ["dist.test.ts", "no eval"],
  B12: ["dist.test.ts", "stays under 1 MB"],
  B14: ["public_bugs.test.ts", "B14"],
  W1: "webgpu",
  W2: "webgpu",
  W4: "webgpu",
  W6: "webgpu",
  C1: "scheduler",
  C3: "scheduler",
  C4: "scheduler",
  C6: "scheduler",
  N1: ["public_bugs.test.ts", "N1"],
  N2: ["public_bugs.test.ts", "N2"],
  N4: ["public_bugs.test.ts", "N4"],
  N6: "safetensors",
  N8: ["public_bugs.test.ts", "N8"],
  N10: "webgpu",
  N11: ["math.test.ts", "stays within its stated error"],
  T1: ["tokenizer.test.ts", "it becomes one unknown token"],
  T2: ["tokenizer.test.ts", "default ids past a tiny vocabulary"],
  T4: ["tokenizer.test.ts", "lone surrogates are encoded as U+FFFD"],
  T5: ["decoder.test.ts", "an emoji, CJK and combining marks"],
  T7: ["chat_template.test.ts", "there is one start token"],
  T9: ["public_bugs.test.ts", "T9"],
  T10: ["tokenizer_files.test.ts", "a broken chat template does not keep a model from loading"],
  T12: ["chat_template.test.ts", "namespaces, break, continue"],
  A1: ["hosts.test.ts", "a CommonJS bundle made by esbuild runs in Node"],
  A2: ["dist.test.ts", "needs no address of its own"],
  A4: ["package.test.ts", "runs nothing at install"],
  A6: ["public_bugs.test.ts", "A6"],
  A7: ["sampler.test.ts", "top-k above the vocabulary"],
  A9: ["sampler.test.ts", "misspelt options are a TypeError"],
  A11: "embeddings",
  A13: ["llm.test.ts", "stops at the end token, the limit, a stop string and a full context"],
  P1: "benchmarks",
  P3: "benchmarks",
};

describeWith("corpus", "index", () => {
  const bugs = readJson<{ id: string; symptom: string }[]>("corpus", "public-bugs.json");
  test.each(bugs)("$id has its trial: $symptom", ({ id }) => {
    const place = INDEX[id];
    expect(place).toBeDefined();
    if (typeof place === "string") return expect(LATER).toContain(place);
    expect(readFileSync(join("tests", place![0]), "utf8")).toContain(place![1]);
  });
});

/** Parts of the product that are not built yet. */
const LATER = ["safetensors", "webgpu", "scheduler", "embeddings", "benchmarks"];
