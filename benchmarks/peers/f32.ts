// Products C[n, n] = A B of f32 in one process: `f32.js {"peer", "n", "threads"}`. Prints GFLOP/s.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { createEngine, Type } from "../../ts/index.ts";
import { repeat } from "../measure.ts";
import { matMulModel } from "./onnx.ts";

interface Job {
  readonly peer: string;
  readonly n: number;
  readonly threads: number;
}
type Run = () => unknown;

const matrix = (n: number): Float32Array<ArrayBuffer> =>
  Float32Array.from({ length: n * n }, (_, i) => ((i * 37) % 101) / 101 - 0.5);
const require = createRequire(import.meta.url);

async function slackwater({ n, threads }: Job): Promise<Run> {
  const engine = await createEngine({ nThreads: threads });
  await engine.arrived;
  const g = engine.graph();
  const [a, b] = [g.weight("a", Type.F32, [n, n]), g.input("b", Type.F32, [n, n])];
  g.mulMat(a, b).asOutput("c");
  g.plan();
  a.write(matrix(n));
  return () => {
    b.write(operand); // passed in each time, as the peers do
    return g.compute();
  };
}

interface Ort {
  readonly env: { readonly wasm: { numThreads: number }; logLevel: string };
  readonly InferenceSession: {
    create(model: Uint8Array, options: object): Promise<{ run(feeds: object): Promise<unknown> }>;
  };
  readonly Tensor: new (type: string, data: Float32Array, ne: readonly number[]) => unknown;
}

async function onnxruntime({ n, threads }: Job): Promise<Run> {
  const name = "onnxruntime-web";
  const ort = ((await import(name)) as { default?: Ort }).default ?? ((await import(name)) as Ort);
  ort.env.wasm.numThreads = threads;
  ort.env.logLevel = "error";
  const session = await ort.InferenceSession.create(matMulModel(n, matrix(n)), {
    executionProviders: ["wasm"],
  });
  const x = new ort.Tensor("float32", operand, [n, n]);
  return () => session.run({ A: x });
}

interface Tf {
  setBackend(name: string): Promise<unknown>;
  ready(): Promise<void>;
  tensor2d(data: Float32Array, ne: readonly number[]): object;
  matMul(a: object, b: object): { dispose(): void };
}

async function tfjs({ n }: Job): Promise<Run> {
  const tf = require("@tensorflow/tfjs-core") as Tf;
  const backend = require("@tensorflow/tfjs-backend-wasm") as { setWasmPaths(path: string): void };
  backend.setWasmPaths(
    join(dirname(require.resolve("@tensorflow/tfjs-backend-wasm/package.json")), "wasm-out/"),
  );
  await tf.setBackend("wasm");
  await tf.ready();
  const [a, b] = [tf.tensor2d(operand, [n, n]), tf.tensor2d(matrix(n), [n, n])];
  return () => tf.matMul(a, b).dispose();
}

interface JaxArray {
  readonly ref: JaxArray;
  reshape(ne: readonly number[]): JaxArray;
  blockUntilReady(): Promise<unknown>;
  dispose(): void;
}
interface Jax {
  init(device: string): Promise<unknown>;
  defaultDevice(device: string): void;
  readonly numpy: { array(data: Float32Array): JaxArray; matmul(a: JaxArray, b: JaxArray): JaxArray };
}

async function jax({ n }: Job): Promise<Run> {
  const name = "@jax-js/jax";
  const module = (await import(name)) as Jax;
  await module.init("wasm");
  module.defaultDevice("wasm");
  const make = (data: Float32Array): JaxArray => module.numpy.array(data).reshape([n, n]);
  const [a, b] = [make(operand), make(matrix(n))];
  return async () => {
    const c = module.numpy.matmul(a.ref, b.ref);
    await c.blockUntilReady();
    c.dispose();
  };
}

const PEERS: Readonly<Record<string, (job: Job) => Promise<Run>>> = {
  slackwater,
  "onnxruntime-web": onnxruntime,
  "tfjs-backend-wasm": tfjs,
  "jax-js": jax,
};

const job = JSON.parse(process.argv[2]!) as Job;
const operand = matrix(job.n);
const run = await PEERS[job.peer]!(job);
for (let i = 0; i < 3; i++) await run();
const { median, best } = await repeat(run, 1500);
const flops = 2 * job.n ** 3;
const rates = (ms: number): number => flops / ms / 1e6;
console.log(
  `\n${JSON.stringify({ wall: rates(median.ms), cpu: rates(median.cpuMs), bestWall: rates(best.ms) })}`,
);
process.exit(0);
