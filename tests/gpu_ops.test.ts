// Every operator that the GPU has, against its double-precision reference: fresh, in place, through views.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { opDef } from "../ts/ops/index.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import type { GpuBackend } from "../ts/webgpu/backend.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";
import { CASES } from "./cases/index.ts";
import { describeGpu } from "./gpu_describe.ts";
import { gpuEngine } from "./gpu_engine.ts";
import { testGpu } from "./gpu_host.ts";
import { check, dataOf, expected, isNumeric, runOpCase } from "./op_run.ts";

await describeGpu("on a GPU", () => {
  let engine: Engine;
  let backend: GpuBackend;

  beforeAll(async () => {
    ({ engine, backend } = await gpuEngine({ gpu: await testGpu() }));
  });

  afterAll(() => {
    expect(backend.gpu.failure).toBeUndefined();
    engine.dispose();
  });

  const built = Object.entries(CASES).filter(
    ([op]) => KERNELS[Number(op) as keyof typeof KERNELS] !== undefined,
  );
  for (const [op, cases] of built) {
    describe(opDef(Number(op)).name, () => {
      test.each(cases.map((c) => [c.title, c] as const))("%s", async (_title, c) => {
        const data = dataOf(c);
        const fresh = await runOpCase(engine, c, data, "fresh");
        if (isNumeric(c)) check(c, fresh.values, expected(c, data));
        expect((await runOpCase(engine, c, data, "in place")).bytes).toEqual(fresh.bytes);
        expect((await runOpCase(engine, c, data, "view")).bytes).toEqual(fresh.bytes);
      });
    });
  }
});
