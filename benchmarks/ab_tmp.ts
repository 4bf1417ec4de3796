import { readFileSync } from "node:fs";
import { createEngine, type Engine, type Graph, leaf, Type } from "../ts/index.ts";
import { typeInfo, typeOf } from "../ts/types.ts";
import { fillBlocks } from "./synthesize.ts";
const [a, b, types, ks, dram] = process.argv.slice(2) as [string, string, string, string, string];
const ROWS = Number(process.env["ROWS"] ?? 4096);
const COLS = Number(process.env["COLS"] ?? 1);
function products(engine: Engine, type: Type, K: number, count: number): Graph {
  const weights = Array.from({ length: count }, (_, i) => leaf(`w${i}`, type, [K, ROWS]));
  engine.allocate(weights, "weights");
  const bytes = fillBlocks(type, K * ROWS);
  for (const w of weights) w.write(bytes);
  engine.toQuads(weights);
  const g = engine.graph();
  const x = g.input("x", Type.F32, [K, COLS]);
  for (const w of weights) g.mulMat(w, x).asOutput();
  g.plan();
  x.write(Float32Array.from({ length: K * COLS }, (_, i) => Math.sin(i)));
  return g;
}
for (const name of types.split(",")) for (const K of ks.split(",").map(Number)) {
  const type = typeOf(name)!;
  const { blockSize, typeSize } = typeInfo(type)!;
  const mat = ((K * ROWS) / blockSize) * typeSize;
  for (const count of dram === "0" ? [1] : dram === "1" ? [Math.ceil((384 * 2 ** 20) / mat)] : [1, Math.ceil((384 * 2 ** 20) / mat)]) {
    const best = [Infinity, Infinity]; const all: number[][] = [[], []];
    for (let round = 0; round < 1; round++) {
      const engines = [];
      for (const f of [a, b]) engines.push(await createEngine({ nThreads: 1, device: "cpu", wasm: readFileSync(f) as never }));
      const gs = engines.map((e) => products(e, type, K, count));
      for (let i = 0; i < (count > 1 ? 3 : 30); i++) for (const g of gs) await g.compute();
      for (let i = 0; i < (count > 1 ? 25 : COLS > 1 ? 40 : 1500); i++) for (const j of i % 2 ? [1, 0] : [0, 1]) {
        const t = performance.now(); await gs[j]!.compute(); const ms = performance.now() - t;
        best[j] = Math.min(best[j]!, ms); all[j]!.push(ms);
      }
      for (const e of engines) e.dispose();
    }
    const gbs = (ms: number) => (COLS > 1 ? (2 * K * ROWS * COLS * count) / ms / 1e6 : (mat * count) / ms / 1e6).toFixed(1);
    const med = (x: number[]) => x.sort((p, q) => p - q)[x.length >> 1]!;
    console.log(name, K, count > 1 ? "DRAM" : "cache", "best", gbs(best[0]!), gbs(best[1]!), (best[0]! / best[1]!).toFixed(3), "median", gbs(med(all[0]!)), gbs(med(all[1]!)), (med(all[0]!) / med(all[1]!)).toFixed(3));
  }
}
