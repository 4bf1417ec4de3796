// Dispatches that run as one, and the order of nodes that lets them.
import { describe, expect, it } from "vitest";
import { Op } from "../assembly/abi.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { createEngine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import type { GpuBackend } from "../ts/webgpu/backend.ts";
import type { Dispatch } from "../ts/webgpu/kernel.ts";
import { lowerForGpu } from "../ts/webgpu/lower.ts";
import { type Job, mergeRuns } from "../ts/webgpu/merge.ts";
import { describeGpu } from "./gpu_describe.ts";
import { gpuEngine } from "./gpu_engine.ts";
import { testGpu } from "./gpu_host.ts";
import { random } from "./op_data.ts";

const MEMORY = { size: 65536 } as GPUBuffer;
const GROUP = {};

/** A dispatch that writes one range and reads another. */
function job(key: string, write: number, read: number, change: Partial<Dispatch> = {}): Job {
  const bind = [
    { name: "dst", of: "dst", access: "write" },
    { name: "a", of: 0, access: "read" },
  ] as const;
  const dispatch = { label: key, key, source: () => "", bind, params: [], groups: 1, workgroup: 64 };
  const pattern = { operands: [0, 0], bindings: [{ writable: true, atomic: false }] };
  const places = [write, read].map((start) => ({ memory: MEMORY, start, bytes: 256 }));
  return { dispatch: { ...dispatch, mergeable: true, ...change }, pattern, group: GROUP, places };
}

describe("neighbours", () => {
  it("of one kernel that do not need each other run as one, four at most", () => {
    expect(mergeRuns([])).toEqual([]);
    expect(mergeRuns([job("a", 0, 1024), job("a", 256, 1024), job("b", 512, 1024)])).toEqual([0, 2]);
    expect(mergeRuns(Array.from({ length: 9 }, (_, i) => job("a", 256 * i, 8192)))).toEqual([0, 4, 8]);
  });

  it("stay apart where one reads or overwrites what another writes", () => {
    expect(mergeRuns([job("a", 0, 1024), job("a", 256, 0)])).toEqual([0, 1]);
    expect(mergeRuns([job("a", 0, 1024), job("a", 1024, 512)])).toEqual([0, 1]);
    expect(mergeRuns([job("a", 0, 1024), job("a", 128, 1024)])).toEqual([0, 1]);
    expect(mergeRuns([job("a", 0, 1024), job("a", 256, 1024), job("a", 512, 128)])).toEqual([0, 2]);
  });

  it("stay apart where the kernel or the bindings say so", () => {
    const other = { ...job("a", 256, 1024), group: {} };
    expect(mergeRuns([job("a", 0, 1024), other])).toEqual([0, 1]);
    const not = (at: number): Job => job("a", at, 1024, { mergeable: false });
    expect(mergeRuns([not(0), not(256)])).toEqual([0, 1]);
  });
});

/** The projections of attention and what follows, as models build them. Returns the results. */
function attention(g: Graph): Tensor[] {
  const x = g.rmsNorm(g.input("x", Type.F32, [64, 1]), 1e-5);
  const project = (name: string, rows: number): Tensor =>
    g.reshape(g.mulMat(g.weight(name, Type.F32, [64, rows]), x), [16, rows / 16, 1]);
  const at = g.input("positions", Type.I32, [1]);
  const q = g.rope(project("q", 64), at, undefined, { nDims: 16 });
  const k = g.rope(project("k", 32), at, undefined, { nDims: 16 });
  return [q, k, project("v", 32)].map((t) => t.asOutput());
}

describe("the order of nodes", () => {
  it("brings products of the same activations together", async () => {
    using engine = await createEngine({ nThreads: 1, device: "cpu" });
    using g = engine.graph();
    attention(g);
    const program = g.program();
    const lowered = lowerForGpu(program);
    const ops = (nodes: readonly { tensor: Tensor }[]): Op[] =>
      nodes.map((n) => n.tensor.op).filter((op) => op > Op.TRANSPOSE);
    expect(ops(program.nodes)).not.toEqual(ops(lowered.nodes));
    expect(ops(lowered.nodes)).toEqual([Op.RMS_NORM, Op.MUL_MAT, Op.MUL_MAT, Op.MUL_MAT, Op.ROPE, Op.ROPE]);
    expect(new Set(lowered.nodes)).toEqual(new Set(program.nodes));
  });

  it("leaves a product behind what writes its weights", async () => {
    using engine = await createEngine({ nThreads: 1, device: "cpu" });
    using g = engine.graph();
    const x = g.input("x", Type.F32, [32]);
    const w = g.input("w", Type.F32, [32, 8]);
    g.mulMat(w, x).asOutput();
    g.expand(g.cpy(g.input("new", Type.F32, [32, 8]), w));
    g.expand(g.mulMat(w, x).asOutput());
    const program = g.program();
    expect(lowerForGpu(program).nodes).toEqual(program.nodes);
  });
});

await describeGpu("on a GPU", () => {
  it("merged dispatches give the bits of single ones", async () => {
    const { engine, backend } = await gpuEngine({ gpu: await testGpu() });
    using g = engine.graph();
    const outputs = attention(g);
    g.plan();
    const next = random(1);
    for (const t of g.program().leafs) {
      if (t.type === Type.I32) t.write(Int32Array.of(3));
      else t.write(Float32Array.from({ length: t.nBytes / 4 }, () => next() - 0.5));
    }
    const results = async (): Promise<Uint8Array[]> => Promise.all(outputs.map((t) => t.readBytes()));
    const count = async (run: () => Promise<void>): Promise<number> => {
      const { dispatches } = (backend as GpuBackend).gpu.counts;
      await run();
      return backend.gpu.counts.dispatches - dispatches;
    };
    expect(await count(() => g.compute())).toBe(3); // norm, products, ropes
    const merged = await results();
    const seen: string[] = [];
    expect(await count(() => g.compute({ wants: () => true, onTensor: (t) => void seen.push(t.name) }))).toBe(
      6,
    );
    expect(await results()).toEqual(merged);
    expect(seen.length).toBeGreaterThanOrEqual(6);
    engine.dispose();
  });
});
