// Kernels that use WGSL's f16, on a device that has it: every kind and type of weights against double precision, with
// activations and weights of hostile magnitudes, and what takes their place when they fail their test. For scripts in
// runtimes whose adapter has f16.
import { Op } from "../assembly/abi.ts";
import { toF16 } from "../ts/graph/elements.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { mulMatIdDef } from "../ts/ops/mul_mat_id.ts";
import { BLOCK_WEIGHTS } from "../ts/ops/mul_mat.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import { rowBytes } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { openDevice } from "../ts/webgpu/device.ts";
import type { Dispatch, GpuKernel, Kernels } from "../ts/webgpu/kernel.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";
import { SCALES } from "../ts/webgpu/wgsl/quants.ts";
import { multiply } from "./cases/mul_mat.ts";
import { Core, nmse, samples, stream, weights } from "./core.ts";
import { engineOver } from "./gpu_engine.ts";

/** What came out. */
export interface Halves {
  /** labels of the kernels with f16 that ran */
  readonly kernels: readonly string[];
  /** results that are not near those of double precision, in sentences */
  readonly apart: readonly string[];
  /** what is said of kernels that were made wrong, and whether the GPU goes on without f16 */
  readonly refused: readonly string[];
  readonly goesOn: boolean;
}

/** Weights in tiles are rounded to 11 bits, those of F16 not at all. */
const limitOf = (type: Type): number => (type === Type.F16 ? 1e-11 : 1e-6);

interface Product {
  readonly type: Type;
  readonly k: number;
  readonly m: number;
  readonly n: number;
  /** matrices, of which columns take turns; a plain product when absent */
  readonly matrices?: number;
}

/** Small and large tiles, of one matrix and of several. */
function productsOf(type: Type): Product[] {
  const k = type === Type.F16 ? 71 : 256;
  return [
    { type, k, m: 33, n: 9 },
    { type, k, m: 100, n: 99 },
    { type, k, m: 33, n: 35, matrices: 2 },
    { type, k, m: 100, n: 200, matrices: 2 },
  ];
}

/** Row 1 large, row 2 tiny: at and below what F16 holds. */
function hostileRows(bytes: Uint8Array, { type, k }: Product): void {
  const { typeSize } = typeInfo(type)!;
  const size = rowBytes(type, k);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (const [row, f16, exponent] of [
    [1, toF16(60000), 200],
    [2, 3, 40],
  ] as const)
    for (let at = row * size; at < (row + 1) * size; at += typeSize)
      if (type === Type.MXFP4) bytes[at] = exponent;
      else for (const offset of SCALES[type] ?? [0]) view.setUint16(at + offset, f16, true);
}

/** Columns by turns: as they are, large, tiny, small with one large element. */
function hostileColumns(x: Float32Array, k: number): Float32Array {
  const factors = [1, 1e5, 1e-7, 1e-3];
  return x.map((v, i) => {
    const c = Math.floor(i / k);
    return c % 4 === 3 && i % k === 5 ? 1e5 : v * factors[c % 4]!;
  });
}

/** The results of rows and columns of a kind. */
function part(y: ArrayLike<number>, m: number, row: number, column: number): number[] {
  return Array.from(y).filter((_, i) => {
    const r = i % m;
    return Math.floor(i / m) % 4 === column && (row === 0 ? r === 0 || r > 2 : r === row);
  });
}

function expected(p: Product, values: Float32Array, x: Float32Array): Float64Array {
  const { k, m, n, matrices = 1 } = p;
  const all = new Float64Array(m * n);
  for (let c = 0; c < n; c++) {
    const a = values.subarray((c % matrices) * m * k, ((c % matrices) + 1) * m * k);
    all.set(multiply({ k, m, n: 1 }, k, a, x.subarray(c * k, (c + 1) * k)), c * m);
  }
  return all;
}

async function run(engine: Engine, p: Product, bytes: Uint8Array, x: Float32Array): Promise<Float32Array> {
  const { type, k, m, n, matrices } = p;
  using g = engine.graph();
  const a = g.weight("a", type, matrices === undefined ? [k, m] : [k, m, matrices]);
  const b = g.input("b", Type.F32, matrices === undefined ? [k, n] : [k, 1, n]);
  const ids = matrices === undefined ? undefined : g.input("ids", Type.I32, [1, n]);
  const y: Tensor = (
    ids === undefined ? g.mulMat(a, b) : g.node(Op.MUL_MAT_ID, mulMatIdDef, [a, b, ids])
  ).asOutput();
  g.plan();
  a.write(bytes);
  b.write(x);
  ids?.write(Int32Array.from({ length: n }, (_, i) => i % matrices!));
  await g.compute();
  return (await y.read()) as Float32Array;
}

async function differences(engine: Engine, core: Core, p: Product): Promise<string[]> {
  const { type, k, m, n, matrices = 1 } = p;
  core.reset();
  const next = stream(type + n);
  const bytes = weights(core, type, k * m * matrices, next).slice();
  hostileRows(bytes, p);
  const x = hostileColumns(samples(k * n, next), k);
  const want = expected(p, core.dequantize(type, bytes, k * m * matrices), x);
  const got = await run(engine, p, bytes, x);
  const found: string[] = [];
  for (let row = 0; row < 3; row++)
    for (let column = 0; column < 4; column++) {
      const error = nmse(part(got, m, row, column), part(want, m, row, column));
      if (!(error < limitOf(type)))
        found.push(`${Type[type]} ${m} x ${n} x ${matrices}, ${row} ${column}: ${error}`);
    }
  return found;
}

/** The backend's kernels, each dispatch through `change`. */
function changed(change: (d: Dispatch) => Dispatch): Kernels {
  const through = ({ dispatches, ...rest }: GpuKernel): GpuKernel => ({
    ...rest,
    dispatches: (node, caps) => dispatches(node, caps).map(change),
  });
  return Object.fromEntries(Object.entries(KERNELS).map(([op, kernel]) => [op, through(kernel)]));
}

const usesF16 = ({ enable }: Dispatch): boolean => enable?.includes("f16") === true;

/** Kernels with f16 made wrong: the self-test has to refuse them, and the others go on. */
async function withoutThem(core: Core): Promise<Pick<Halves, "refused" | "goesOn">> {
  const wrong = (d: Dispatch): Dispatch =>
    usesF16(d) ? { ...d, source: () => d.source().replaceAll("vec4<f16>(u)", "vec4<f16>(u * 1.5)") } : d;
  const backend = new GpuBackend(await openDevice(), changed(wrong));
  const engine = await engineOver(backend);
  const p = { type: Type.Q4_K, k: 256, m: 40, n: 30 };
  using g = engine.graph();
  const a = g.weight("a", p.type, [p.k, p.m]);
  const experts = g.weight("experts", p.type, [p.k, p.m, 2]);
  const x = g.input("x", Type.F32, [p.k, p.n]);
  const ids = g.input("ids", Type.I32, [1, p.n]);
  g.mulMat(a, x).asOutput();
  g.node(Op.MUL_MAT_ID, mulMatIdDef, [experts, g.reshape(x, [p.k, 1, p.n]), ids]).asOutput();
  const program = g.program();
  await backend.prepare(program);
  const refused = [...backend.refused().keys()];
  const supported = program.nodes.every(({ tensor, src }) => backend.supportsOp(tensor, src));
  const apart = await differences(engine, core, p);
  const again = await differences(engine, core, { ...p, matrices: 2 });
  engine.dispose();
  return { refused, goesOn: supported && apart.length + again.length === 0 };
}

/** Runs it all. */
export async function halves(): Promise<Halves> {
  const core = await Core.load("simd");
  const kernels = new Set<string>();
  const noted = (d: Dispatch): Dispatch => {
    if (usesF16(d)) kernels.add(d.label);
    return d;
  };
  const backend = new GpuBackend(await openDevice(), changed(noted));
  const engine = await engineOver(backend);
  const apart: string[] = [];
  for (const type of [Type.F16, ...BLOCK_WEIGHTS])
    for (const p of productsOf(type)) apart.push(...(await differences(engine, core, p)));
  if (backend.lost !== undefined) apart.push(backend.lost.message);
  engine.dispose();
  return { kernels: [...kernels], apart, ...(await withoutThem(core)) };
}
