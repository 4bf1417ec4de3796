// The tiny plan that is made while an engine starts.
import { describe, expect, it } from "vitest";
import { rehearse } from "../ts/runtime/rehearsal.ts";
import { planWasm } from "./plan_data.ts";

describe("the rehearsal", () => {
  it("goes through liveness and placement: in place, a view, and a gap that best fit leaves", () => {
    const { memory, exports } = planWasm();
    const plan = rehearse({ memory, exports })!;
    expect([plan.peak, plan.lowerBound, plan.optimal]).toEqual([192, 192, true]);
    expect(plan.entries.map((e) => [e.lower, e.upper, e.size])).toEqual([
      [0, 2, 64],
      [1, 3, 64],
      [2, 6, 128],
      [5, 6, 64],
    ]);
    expect(plan.work).toBeGreaterThan(0);
  });

  it("leaves the memory as it was", () => {
    const { memory, exports } = planWasm();
    const free = exports.regionShortfall(1e6);
    const bytes = memory.buffer.byteLength;
    rehearse({ memory, exports });
    expect([exports.regionShortfall(1e6), memory.buffer.byteLength]).toEqual([free, bytes]);
  });

  it("is left out where memory would have to grow", () => {
    const { memory, exports } = planWasm();
    const bytes = memory.buffer.byteLength;
    const full = { ...exports, regionShortfall: () => 1 };
    expect(rehearse({ memory, exports: full })).toBeUndefined();
    expect(memory.buffer.byteLength).toBe(bytes);
  });
});
