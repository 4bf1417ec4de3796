// Plans kept for graphs of the same wiring: found again, and the one unused for longest goes first.
import { expect, test } from "vitest";
import { PlanCache, type StoredPlan } from "../ts/runtime/plan_cache.ts";

/** Of so many records that two fit. */
function plan(word: number): StoredPlan {
  const none = new Float64Array(0);
  return {
    n: 60_000,
    wiring: Int32Array.of(word),
    extents: none,
    limits: none,
    results: [],
    offs: none,
    scratchOffs: none,
    parents: new Int32Array(0),
  };
}

test("a plan that was found lately outlives one that was not", () => {
  const cache = new PlanCache();
  const [a, b, c] = [plan(1), plan(2), plan(3)];
  cache.add(a);
  cache.add(b);
  expect(cache.find(plan(1))).toBe(a);
  cache.add(c);
  expect(cache.find(plan(2))).toBeUndefined();
  expect(cache.find(plan(1))).toBe(a);
  expect(cache.find(plan(3))).toBe(c);
});
