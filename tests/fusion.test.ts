// Fusions by name: what the option takes, and who hears of it.
import { expect, test } from "vitest";
import { FUSIONS, type FuseOption, readFusions } from "../ts/graph/fusion.ts";
import type { DeviceOptions } from "../ts/runtime/backend.ts";
import { createEngine, startEngine } from "../ts/runtime/engine.ts";

test("all fusions are on unless the option says otherwise; names left out stay on", () => {
  const on = (option?: FuseOption): string[] => [...readFusions(option)];
  expect(on()).toEqual([...FUSIONS]);
  expect(on(true)).toEqual([...FUSIONS]);
  expect(on({})).toEqual([...FUSIONS]);
  expect(on(false)).toEqual([]);
  expect(on({ norm_mul: false, glu_pair: true })).toEqual(FUSIONS.filter((name) => name !== "norm_mul"));
});

test("names that are none are a TypeError, values that are none bad-param", async () => {
  const wrong = { norm_mull: true } as FuseOption;
  await expect(createEngine({ fuse: wrong })).rejects.toThrow(TypeError);
  await expect(createEngine({ fuse: wrong })).rejects.toThrow(/"norm_mull"; known: norm_mul, /);
  for (const bad of ["all", null, 1, { norm_mul: "yes" }, { norm_mul: null }]) {
    await expect(createEngine({ fuse: bad as FuseOption })).rejects.toThrow(
      expect.objectContaining({ name: "GraphError", code: "bad-param" }),
    );
  }
});

test("a device is opened with the fusions that are on", async () => {
  const asked: DeviceOptions[] = [];
  const engine = await startEngine({ nThreads: 1, fuse: { glu_pair: false } }, async (options) => {
    asked.push(options);
    throw new Error("not here");
  });
  expect(asked).toEqual([{ fusions: new Set(FUSIONS.filter((name) => name !== "glu_pair")) }]);
  engine.dispose();
});
