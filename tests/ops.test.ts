// Every operator against its double-precision reference: fresh, in place, through views, by several threads.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Op } from "../assembly/abi.ts";
import { opDef } from "../ts/ops/index.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { shape4 } from "../ts/shape.ts";
import { isQuantized, Type } from "../ts/types.ts";
import { CASES } from "./cases/index.ts";
import { check, couldBeInPlace, dataOf, expected, isNumeric, runOpCase } from "./op_run.ts";

let one: Engine;
let three: Engine;

beforeAll(async () => {
  one = await createEngine({ nThreads: 1 });
  three = await createEngine({ nThreads: 3 });
  await three.arrived;
});

afterAll(() => {
  one.dispose();
  three.dispose();
});

for (const [op, cases] of Object.entries(CASES)) {
  describe(opDef(Number(op)).name, () => {
    test.each(cases.map((c) => [c.title, c] as const))("%s", async (_title, c) => {
      const data = dataOf(c);
      const fresh = await runOpCase(one, c, data, "fresh");
      expect(fresh.y.ne).toEqual(shape4(c.ne));
      expect(fresh.y.type).toBe(c.type ?? Type.F32);
      if (isNumeric(c)) check(c, fresh.values, expected(c, data));
      const over = await runOpCase(one, c, data, "in place");
      expect(over.bytes).toEqual(fresh.bytes);
      if (Number(op) > Op.TRANSPOSE) expect(over.inPlace).toBe(couldBeInPlace(c, over.y));
      if (c.op !== Op.RESHAPE && c.op !== Op.VIEW)
        expect((await runOpCase(one, c, data, "view")).bytes).toEqual(fresh.bytes);
      expect((await runOpCase(three, c, data, "fresh")).bytes).toEqual(fresh.bytes);
    });
  });
}

// Engines without relaxed SIMD (Node 20) cannot load the other build; hosts.test.ts runs this file on Node 26.
const relaxed = WebAssembly.validate(readFileSync(new URL("../build/relaxed.wasm", import.meta.url)));

const relaxedTest = relaxed ? test : undefined;
relaxedTest?.("both builds give the same bits for every operator here but products of floats", async () => {
  const a = await createEngine({ nThreads: 1, wasm: "simd" });
  const b = await createEngine({ nThreads: 1, wasm: "relaxed" });
  for (const c of Object.values(CASES).flat()) {
    const data = dataOf(c);
    const [x, y] = [await runOpCase(a, c, data, "fresh"), await runOpCase(b, c, data, "fresh")];
    if (c.op === Op.MUL_MAT_ID && !isQuantized(c.src[0]!.type ?? Type.F32))
      check(c, y.values, expected(c, data));
    else expect(y.bytes, `${opDef(c.op).name} ${c.title}`).toEqual(x.bytes);
  }
  a.dispose();
  b.dispose();
});
