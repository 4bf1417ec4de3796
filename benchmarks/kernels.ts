// Matrix products of each type against the roofs of the machine, one thread: `npm run kernels -- [--types ..] [--wasm simd] [--vectors 256]`.
// Decode: GB of weights per second, from memory (cycling over 512 MiB) and from the caches (one matrix), medians and the
// best run, in a table of its own at the end. Prompt: GOP/s of 2 per weight and column.
//
// What memory gives changes within seconds on a host that other machines share. So each pass over weights in memory
// stands between two bare reads of as many bytes, and its share of the roof is that of their mean; the median counts.
import { parseArgs } from "node:util";
import { createEngine, type Engine, type Graph, leaf, Type } from "../ts/index.ts";
import { typeInfo, typeOf } from "../ts/types.ts";
import { median, repeat, report, round, spentOn } from "./measure.ts";
import { type Rate, rate, reader, roofs } from "./roof.ts";
import { fillBlocks } from "./synthesize.ts";

const { values } = parseArgs({
  options: {
    types: {
      type: "string",
      default: "Q4_0,Q4_1,Q5_0,Q5_1,Q8_0,IQ4_NL,MXFP4,Q2_K,Q3_K,Q4_K,Q5_K,Q6_K,IQ4_XS,F16,F32",
    },
    columns: { type: "string", default: "1,4,64,512" },
    wasm: { type: "string", default: "relaxed" },
    vectors: { type: "string", default: "128" },
    layout: { type: "string", default: "quads" },
    k: { type: "string", default: "4096" },
  },
});
const K = Number(values.k);
const ROWS = 4096;
const DRAM_MIB = 512;
const PASSES = 15;

/** A graph of products of the same input with `count` matrices, planned and filled. */
function products(engine: Engine, type: Type, columns: number, count: number): Graph {
  const weights = Array.from({ length: count }, (_, i) => leaf(`w${i}`, type, [K, ROWS]));
  engine.allocate(weights, "weights");
  const bytes = fillBlocks(type, K * ROWS);
  for (const w of weights) w.write(bytes);
  if (values.layout === "quads" && typeInfo(type)!.blockSize > 1) engine.toQuads(weights);
  const g = engine.graph();
  const x = g.input("x", Type.F32, [K, columns]);
  for (const w of weights) g.mulMat(w, x).asOutput();
  g.plan();
  x.write(Float32Array.from({ length: K * columns }, (_, i) => Math.sin(i)));
  return g;
}

/** GB/s, and the median share of the bare reads around a pass. */
interface Found {
  readonly median: number;
  readonly best: number;
  readonly roof: number;
  readonly share: number;
}

interface Rates {
  readonly median: Rate;
  readonly best: Rate;
}

const start = (): Promise<Engine> =>
  createEngine({
    nThreads: 1,
    wasm: values.wasm as "simd" | "relaxed",
    vectors: Number(values.vectors) as 128 | 256,
  });

async function timed(type: Type, columns: number, count: number): Promise<Rates> {
  using engine = await start();
  const g = products(engine, type, columns, count);
  const { blockSize, typeSize } = typeInfo(type)!;
  const amount = columns === 1 ? ((K * ROWS) / blockSize) * typeSize * count : 2 * K * ROWS * columns * count;
  for (let i = 0; i < 5; i++) await g.compute();
  const { median, best } = await repeat(() => g.compute(), 500);
  return { median: rate(amount, median), best: rate(amount, best) };
}

/** One column times weights in memory: GB/s of weights and of the bare reads around them. */
async function fromMemory(type: Type, matrixBytes: number): Promise<Found> {
  using engine = await start();
  const count = Math.ceil((DRAM_MIB * 2 ** 20) / matrixBytes);
  const g = products(engine, type, 1, count);
  const reads = async (): Promise<number> => rate(DRAM_MIB * 2 ** 20, await spentOn(read)).wall;
  for (let i = 0; i < 3; i++) await g.compute();
  const own: number[] = [];
  const roofs = [await reads()];
  for (let i = 0; i < PASSES; i++) {
    own.push(rate(matrixBytes * count, await spentOn(() => g.compute())).wall);
    roofs.push(await reads());
  }
  const around = own.map((_, i) => (roofs[i]! + roofs[i + 1]!) / 2);
  return {
    median: median(own),
    best: Math.max(...own),
    roof: median(around),
    share: median(own.map((x, i) => x / around[i]!)),
  };
}

const read = await reader(DRAM_MIB);
const roof = await roofs();
const rows: Record<string, unknown>[] = Object.entries(roof).map(([name, { wall, cpu }]) => ({
  what: name,
  wall: round(wall),
  cpu: round(cpu),
}));
const decode: Record<string, unknown>[] = [];
for (const name of values.types.split(",")) {
  const type = typeOf(name);
  if (type === undefined) throw new TypeError(`kernels: type ${name}`);
  const { blockSize, typeSize } = typeInfo(type)!;
  const matrixBytes = ((K * ROWS) / blockSize) * typeSize;
  const add = (what: string, { median, best }: Rates, top: Rate): void =>
    void rows.push({
      what: `${name} ${what}`,
      wall: round(median.wall),
      cpu: round(median.cpu),
      best: round(best.wall),
      "of roof": round(median.cpu / top.cpu),
    });
  for (const columns of values.columns.split(",").map(Number)) {
    if (columns === 1) {
      const cache = await timed(type, 1, 1);
      const memory = await fromMemory(type, matrixBytes);
      add("1 column, cache, GB/s", cache, roof["cache read GB/s"]!);
      decode.push({
        type: name,
        "cache GB/s": round(cache.median.cpu),
        "cache, best": round(cache.best.wall),
        "DRAM GB/s": round(memory.median),
        "DRAM, best": round(memory.best),
        "bare read GB/s": round(memory.roof),
        "of it": round(memory.share),
      });
    } else {
      const top = roof[blockSize > 1 ? "dot GOP/s" : "f32 GFLOP/s"]!;
      add(`${columns} columns, GOP/s`, await timed(type, columns, 1), top);
    }
  }
}
if (decode.length > 0) console.table(decode);
report("kernels", rows, {
  decode,
  build: values.wasm,
  vectors: values.vectors,
  layout: values.layout,
  shape: [K, ROWS],
});
