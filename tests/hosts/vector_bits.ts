// In Node: products of all types, random graphs and models with vectors of so many bits. The last line is
// { vectors, build, results } as JSON; results are digests by name.
//
//   vector_bits.js BUILD BITS MODELS
import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { leaf, type Tensor } from "../../ts/graph/tensor.ts";
import { loadModel } from "../../ts/llm/index.ts";
import { createEngine, type Engine } from "../../ts/runtime/engine.ts";
import type { VectorBits } from "../../ts/runtime/vectors.ts";
import { Type, typeInfo } from "../../ts/types.ts";
import { Core, samples, stream, weights } from "../core.ts";
import { fill, grow, random } from "../graph_fuzz.ts";

const GRAPHS = 60;
const BLOCKS = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.IQ4_NL, Type.MXFP4];
const QUANTIZED = BLOCKS.concat(Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_XS);
const FLOATS = [Type.F32, Type.F16, Type.BF16];
// Row by row; groups of four and six, alone, in pairs, and what is left over of them.
const COLUMNS = [1, 2, 3, 4, 7, 8, 11, 12, 17, 24, 29, 36];
// Six full panels of rows, in quads too; the last one also with only four, which quads cannot have.
const ROWS = [48, 44];

function digest(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex").slice(0, 16);
}

/** Products of one matrix with so many columns. */
async function product(engine: Engine, w: Tensor, k: number, n: number): Promise<string> {
  using g = engine.graph();
  const x = g.input("x", Type.F32, [k, n]);
  const y = g.mulMat(w, x).asOutput();
  g.plan();
  x.write(samples(k * n, stream(n)));
  await g.compute();
  return digest(await y.readBytes());
}

async function products(engine: Engine, core: Core, results: Map<string, string>): Promise<void> {
  for (const type of [...QUANTIZED, ...FLOATS]) {
    const k = typeInfo(type)!.blockSize === 1 ? 75 : 768;
    for (const rows of ROWS) {
      for (const quads of QUANTIZED.includes(type) ? [false, true] : [false]) {
        const w = leaf("w", type, [k, rows]);
        engine.allocate([w], "weights");
        w.write(weights(core, type, k * rows, stream(rows)));
        if (quads) engine.toQuads([w]);
        for (const n of COLUMNS) {
          results.set(`${Type[type]} ${rows} ${quads} ${n}`, await product(engine, w, k, n));
        }
      }
    }
  }
}

/** Each of three matrices with its share of 40 columns: more and less than pairs of groups take. */
async function chosenProducts(engine: Engine, core: Core, results: Map<string, string>): Promise<void> {
  const [k, rows, experts, tokens] = [512, 12, 3, 40];
  for (const type of QUANTIZED) {
    const w = leaf("w", type, [k, rows, experts]);
    engine.allocate([w], "weights");
    w.write(weights(core, type, k * rows * experts, stream(type)));
    engine.toQuads([w]);
    using g = engine.graph();
    const x = g.input("x", Type.F32, [k, 1, tokens]);
    const ids = g.input("ids", Type.I32, [1, tokens]);
    const y = g.mulMatId(w, x, ids).asOutput();
    g.plan();
    x.write(samples(k * tokens, stream(k)));
    ids.write(Int32Array.from({ length: tokens }, (_, i) => (i % 5 === 0 ? 1 : i % 3 === 0 ? 2 : 0)));
    await g.compute();
    results.set(`${Type[type]} chosen`, digest(await y.readBytes()));
  }
}

async function graphs(engine: Engine, results: Map<string, string>): Promise<void> {
  for (let seed = 1; seed <= GRAPHS; seed++) {
    using g = engine.graph();
    const { inputs, nodes } = grow(g, random(seed), 20, false);
    for (const t of nodes) g.expand(t.asOutput());
    g.plan();
    inputs.forEach((t, i) => t.placement !== undefined && fill(t, random(seed + i)));
    await g.compute();
    for (const [i, t] of nodes.entries()) results.set(`graph ${seed} ${i}`, digest(await t.readBytes()));
  }
}

/** All logits of a prompt, in batches, and of what follows it. */
async function story(engine: Engine, path: string): Promise<string> {
  const hash = createHash("sha256");
  const model = await loadModel(path, { engine, worker: false, nBatch: 32, kvType: Type.F16 });
  const prompt = Array.from({ length: 77 }, (_, i) => 3 + ((i * 37) % 400));
  await model.complete(prompt, {
    maxTokens: 24,
    temperature: 0,
    ignoreEos: true,
    onLogits: (logits) =>
      void hash.update(new Uint8Array(logits.buffer, logits.byteOffset, logits.byteLength)),
  });
  model.dispose();
  return hash.digest("hex").slice(0, 16);
}

const [build, bits, models] = process.argv.slice(2) as ["simd" | "relaxed", string, string];
using engine = await createEngine({
  nThreads: 1,
  device: "cpu",
  wasm: build,
  vectors: Number(bits) as VectorBits,
});
const results = new Map<string, string>();
const core = await Core.load();
await products(engine, core, results);
await chosenProducts(engine, core, results);
await graphs(engine, results);
const shipped = join(import.meta.dirname, "../examples/demo-model/slackwater-stories.gguf");
const others = readdirSync(models, { recursive: true, encoding: "utf8" }).filter((f) => f.endsWith(".gguf"));
for (const path of [shipped, ...others.map((f) => join(models, f))]) {
  results.set(path, await story(engine, path));
}
console.log(
  JSON.stringify({ vectors: engine.vectors, build: engine.build, results: Object.fromEntries(results) }),
);
