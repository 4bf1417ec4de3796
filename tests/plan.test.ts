// The planner on bare lists: validity, bounds, determinism, bad input, and the published hard instances.
import fc from "fast-check";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import * as abi from "../assembly/abi.ts";
import { readCsv } from "../ts/cli/plan.ts";
import { GraphError } from "../ts/errors.ts";
import { type Lifetime, MAX_BUFFERS } from "../ts/runtime/plan_check.ts";
import { planBuffers } from "../ts/runtime/plan_list.ts";
import { dataDir, describeWith, readData } from "./data.ts";
import { dynamicBestFit, lowerBoundOf } from "./plan_ggml.ts";
import { HEAP, listFaults, oneBlock, planWasm } from "./plan_data.ts";
import { entriesOf, packing, pareto, sweepFault, toColumns, training } from "./plan_lists.ts";

const host = planWasm();

function expectValid(list: readonly Lifetime[], options = {}, align = 1): ReturnType<typeof planBuffers> {
  const plan = planBuffers(host, list, options);
  if (list.length > 5000) expect(sweepFault(toColumns(list), plan.offsets, plan.peak)).toBe("");
  else expect(listFaults(list, plan.offsets, align)).toEqual([]);
  const padded = list.map((b) => ({ ...b, size: Math.ceil(b.size / align) * align }));
  const alive = (b: Lifetime): boolean => b.size > 0 && b.upper > b.lower;
  const tops = padded.map((b, i) => (alive(b) ? plan.offsets[i]! + b.size : 0));
  expect(plan.peak).toBe(Math.max(0, ...tops));
  expect(plan.lowerBound).toBe(lowerBoundOf(padded));
  expect(plan.peak).toBeGreaterThanOrEqual(plan.lowerBound);
  if (plan.peak === plan.lowerBound) expect(plan.optimal).toBe(true);
  return plan;
}

const buffer = fc.record({
  lower: fc.integer({ min: 0, max: 40 }),
  length: fc.integer({ min: 0, max: 20 }),
  size: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.constantFrom(0, 1, 31, 32, 33, 2 ** 40)),
});
const list = fc
  .array(buffer, { maxLength: 80 })
  .map((bs) => bs.map((b) => ({ lower: b.lower, upper: b.lower + b.length, size: b.size })));

describe("random lists", () => {
  it("are placed without overlap, at or below ggml's best fit", () => {
    fc.assert(
      fc.property(list, (bs) => {
        const plan = expectValid(bs, { budget: 2e5 });
        expect(plan.peak).toBeLessThanOrEqual(dynamicBestFit(bs).peak);
      }),
      { numRuns: 300, seed: 1 },
    );
  });

  it("are placed on multiples of any alignment", () => {
    const align = fc.constantFrom(1, 3, 31, 32, 256);
    fc.assert(
      fc.property(
        list,
        align,
        (bs, alignment) => void expectValid(bs, { alignment, budget: 2e5 }, alignment),
      ),
      { numRuns: 100, seed: 2 },
    );
  });

  it("give the same plan for the same seed, on a used and on a fresh instance", () => {
    fc.assert(
      fc.property(list, fc.integer(), (bs, seed) => {
        const a = planBuffers(host, bs, { seed, budget: 1e5 });
        const b = planBuffers(planWasm(), bs, { seed, budget: 1e5 });
        expect(b.offsets).toEqual(a.offsets);
        expect([b.peak, b.work]).toEqual([a.peak, a.work]);
      }),
      { numRuns: 40, seed: 3 },
    );
  });

  it("give the same plan whatever the unit of time", () => {
    fc.assert(
      fc.property(list, (bs) => {
        const scaled = bs.map((b) => ({ ...b, lower: b.lower * 1e12 + 0.5, upper: b.upper * 1e12 + 0.5 }));
        const p = planBuffers(host, scaled, { budget: 0 });
        expect(listFaults(bs, p.offsets)).toEqual([]);
        expect(p.lowerBound).toBe(lowerBoundOf(bs));
      }),
      { numRuns: 50, seed: 4 },
    );
  });

  it("leave no region behind", () => {
    expect(host.exports.regionBytes(abi.Region.SCRATCH)).toBe(0);
  });
});

describe("a list stays within its workspace", () => {
  const used = planWasm();
  const alone = { memory: used.memory, exports: oneBlock(used, HEAP) };

  it("however short it is", () => {
    for (const n of [0, 1, 2, 7, 8, 9, 63, 64, 65, 300]) {
      const c = packing(Math.max(1, n), 1, 1000, 1e6);
      const bs = entriesOf(c).slice(0, n);
      const plan = planBuffers(alone, bs, { budget: 1e5 });
      expect(listFaults(bs, plan.offsets)).toEqual([]);
    }
  });

  it("when more are pre-placed than are to be placed", () => {
    const free = entriesOf(packing(60, 1, 1000, 1e6));
    const fixed = Array.from({ length: 400 }, (_, i) => ({
      lower: 2 * i,
      upper: 2 * i + 1,
      size: 1,
      offset: 0,
    }));
    const plan = planBuffers(alone, [...free, ...fixed], { budget: 1e6 });
    expect(listFaults([...free, ...fixed], plan.offsets)).toEqual([]);
    expect(plan.work).toBeGreaterThan(1e5);
  });

  it("when more than can be searched are named, and few enough of them are not empty", () => {
    const c = packing(4000, 1, 1000, 1e6);
    const bs = entriesOf(c).concat(Array.from({ length: 500 }, () => ({ lower: 0, upper: 9, size: 0 })));
    const plan = planBuffers(alone, bs, { budget: 3e7 });
    expect(sweepFault(toColumns(bs), plan.offsets, plan.peak)).toBe("");
    expect(plan.work).toBeGreaterThan(1e7);
  });
});

/** Whether a list of whole sizes fits into `capacity`: every offset of every buffer is tried. */
function fits(bs: readonly Lifetime[], capacity: number, offsets: number[] = []): boolean {
  const i = offsets.length;
  const b = bs[i];
  if (b === undefined) return true;
  for (let at = 0; at + b.size <= capacity; at++) {
    const free = offsets.every((o, j) => {
      const c = bs[j]!;
      return c.upper <= b.lower || b.upper <= c.lower || o + c.size <= at || at + b.size <= o;
    });
    if (free && fits(bs, capacity, [...offsets, at])) return true;
  }
  return false;
}

function leastPeak(bs: readonly Lifetime[]): number {
  let peak = lowerBoundOf(bs);
  while (!fits(bs, peak)) peak++;
  return peak;
}

const few = fc.array(
  fc.record({
    lower: fc.nat(5),
    length: fc.integer({ min: 1, max: 4 }),
    size: fc.integer({ min: 1, max: 6 }),
  }),
  { minLength: 1, maxLength: 6 },
);

it("short lists get the smallest peak there is, and only that is called optimal", () => {
  fc.assert(
    fc.property(few, (choices) => {
      const bs = choices.map((b) => ({ lower: b.lower, upper: b.lower + b.length, size: b.size }));
      const plan = planBuffers(host, bs, { budget: 1e6 });
      expect(plan.peak).toBe(leastPeak(bs));
      expect(plan.optimal).toBe(true);
    }),
    { numRuns: 400, seed: 5 },
  );
});

it("where the lower bound is out of reach, the least peak is found and proved", () => {
  const rows = [
    [0, 4, 1],
    [4, 6, 3],
    [2, 6, 2],
    [3, 6, 1],
    [4, 5, 3],
    [2, 5, 1],
    [0, 1, 9],
    [1, 2, 9],
    [2, 3, 6],
    [3, 4, 5],
    [5, 6, 4],
  ];
  const bs = rows.map(([lower = 0, upper = 0, size = 0]) => ({ lower, upper, size }));
  expect([lowerBoundOf(bs), leastPeak(bs)]).toEqual([10, 11]);
  expect(planBuffers(host, bs)).toMatchObject({ peak: 11, lowerBound: 10, optimal: true });
});

describe("long and hard lists", () => {
  it("realistic lists of 20,000 are within 1 % of the bound by the cheap stages alone", () => {
    for (const c of [training(20000, 1), pareto(20000, 2, 64), pareto(20000, 3, 1)]) {
      const plan = planBuffers(host, c, { budget: 0 });
      expect(sweepFault(c, plan.offsets, plan.peak)).toBe("");
      expect(plan.peak / plan.lowerBound).toBeLessThan(1.01);
    }
  });

  it("packings without a gap are solved up to 300 pieces, and stay within a quarter at 5,000", () => {
    for (const [n, seed] of [
      [200, 1],
      [200, 2],
      [200, 3],
      [300, 1],
      [300, 2],
      [300, 3],
    ] as const) {
      const c = packing(n, seed, 1000, 1e6);
      const plan = planBuffers(host, c, { budget: 1e9 });
      expect(sweepFault(c, plan.offsets, plan.peak)).toBe("");
      expect([plan.lowerBound, plan.peak]).toEqual([1e6, 1e6]);
    }
    const c = packing(5000, 4, 5000, 2 ** 40);
    const plan = planBuffers(host, c, { budget: 0 });
    expect(sweepFault(c, plan.offsets, plan.peak)).toBe("");
    expect(plan.peak / plan.lowerBound).toBeLessThan(1.25);
  });

  it("the sweep that checks long lists sees an overlap", () => {
    const c = pareto(2000, 5, 64);
    const plan = planBuffers(host, c, { budget: 0 });
    for (const k of [0, 999, 1998]) {
      const moved = plan.offsets.slice();
      moved[k] = moved[k + 1]!;
      expect(sweepFault(c, moved, plan.peak)).not.toBe("");
    }
  });
});

describe("lists of a special form", () => {
  it("no buffers need no bytes", () => {
    const plan = planBuffers(host, []);
    expect([plan.peak, plan.lowerBound, plan.sum, plan.optimal]).toEqual([0, 0, 0, true]);
    expect(plan.offsets.length).toBe(0);
  });

  it("one buffer lies at 0", () => {
    expect(expectValid([{ lower: 5, upper: 6, size: 33 }]).peak).toBe(33);
  });

  it("buffers without bytes or without a lifetime take no room", () => {
    const bs = [
      { lower: 0, upper: 9, size: 0 },
      { lower: 3, upper: 3, size: 50 },
      { lower: 0, upper: 9, size: 7 },
    ];
    expect(expectValid(bs).peak).toBe(7);
    expect(expectValid(bs.slice(0, 2)).peak).toBe(0);
  });

  it("equal lifetimes are stacked", () => {
    for (const n of [1, 3, 31, 32, 33, 500]) {
      const bs = Array.from({ length: n }, (_, i) => ({ lower: 2, upper: 7, size: i + 1 }));
      expect(expectValid(bs).peak).toBe((n * (n + 1)) / 2);
    }
  });

  it("one after another they share their bytes", () => {
    const bs = Array.from({ length: 100 }, (_, i) => ({ lower: i, upper: i + 1, size: (i * 37) % 64 }));
    expect(expectValid(bs).peak).toBe(63);
  });

  it("nested lifetimes and staircases reach their lower bound", () => {
    const nested = Array.from({ length: 65 }, (_, i) => ({
      lower: i,
      upper: 200 - i,
      size: 1 + ((i * 13) % 17),
    }));
    expect(expectValid(nested).optimal).toBe(true);
    const stairs = Array.from({ length: 200 }, (_, i) => ({ lower: i, upper: i + 10, size: 16 }));
    expect(expectValid(stairs).optimal).toBe(true);
  });

  it("a sliding window of odd sizes is valid", () => {
    const bs = Array.from({ length: 2000 }, (_, i) => ({ lower: i, upper: i + 10, size: 1 + (i % 13) * 7 }));
    expectValid(bs, { budget: 1e6 });
  });

  it("lifetimes of any sign of step order may arrive unsorted", () => {
    const bs = Array.from({ length: 99 }, (_, i) => ({
      lower: (i * 61) % 99,
      upper: ((i * 61) % 99) + 7,
      size: i + 1,
    }));
    expectValid(bs, { budget: 1e5 });
  });

  it("sizes beyond 2^32 and sums close to 2^53 are exact", () => {
    const big = 2 ** 51 + 1;
    const bs = [
      { lower: 0, upper: 2, size: big },
      { lower: 1, upper: 3, size: big },
      { lower: 2, upper: 4, size: big },
      { lower: 0, upper: 4, size: 2 ** 50 + 3 },
    ];
    const plan = expectValid(bs);
    expect(plan.sum).toBe(3 * big + 2 ** 50 + 3);
    expect(plan.peak).toBe(2 * big + 2 ** 50 + 3);
    const many = Array.from({ length: 64 }, (_, i) => ({ lower: i, upper: i + 5, size: 5e9 + i }));
    expectValid(many, { budget: 1e6 });
  });

  it("offsets stay exact when sums reach 2^53 - 1", () => {
    const bs = [
      { lower: 0, upper: 1, size: 2 ** 52 },
      { lower: 0, upper: 1, size: 2 ** 52 - 1 },
    ];
    expect(expectValid(bs).peak).toBe(2 ** 53 - 1);
  });
});

describe("bad input is refused with a typed error", () => {
  const refused = (bs: readonly Lifetime[], options = {}, code = "bad-plan"): void => {
    const call = (): unknown => planBuffers(host, bs, options);
    expect(call).toThrow(GraphError);
    expect(call).toThrow(expect.objectContaining({ code }));
  };
  const one = { lower: 0, upper: 1, size: 1 };

  it("lifetimes that are not numbers, negative, endless or inverted", () => {
    for (const bad of [NaN, -1, Infinity, -Infinity]) {
      refused([one, { ...one, lower: bad }]);
      refused([one, { ...one, upper: bad }]);
    }
    refused([{ lower: 3, upper: 2, size: 1 }]);
  });

  it("sizes that are not whole, negative or too large, one by one or together", () => {
    for (const size of [NaN, -1, 0.5, Infinity, 2 ** 53]) refused([{ ...one, size }]);
    refused([
      { ...one, size: 2 ** 52 },
      { ...one, size: 2 ** 52 },
    ]);
    refused([{ ...one, size: 2 ** 53 - 1 }], { alignment: 32 });
  });

  it("columns of unequal length and lists that are too long", () => {
    const call = (c: { lower: number[]; upper: number[]; size: ArrayLike<number> }): unknown =>
      planBuffers(host, c);
    expect(() => call({ lower: [0], upper: [1, 2], size: [1, 2] })).toThrow(
      expect.objectContaining({ code: "bad-plan" }),
    );
    const lower = { length: MAX_BUFFERS + 1 } as unknown as number[];
    expect(() => call({ lower, upper: lower, size: lower })).toThrow(
      expect.objectContaining({ code: "too-large" }),
    );
  });

  it("options that are none", () => {
    for (const alignment of [0, -32, 1.5, NaN]) refused([one], { alignment });
    refused([one], { capacity: -1 });
    refused([one], { budget: NaN });
    refused([one], { seed: 0.5 });
    expect(() => planBuffers(host, [one], { alignement: 32 } as never)).toThrow(TypeError);
  });

  it("and the next good list is planned as ever", () => {
    expect(expectValid([one]).peak).toBe(1);
  });
});

describeWith("planning", "published instances", () => {
  const read = (name: string): readonly Lifetime[] =>
    readCsv(new TextDecoder().decode(readData("planning", name)));
  const names = readdirSync(dataDir("planning")).filter((f) => f.endsWith(".csv"));

  for (const name of names.filter((f) => f.includes(".1048576."))) {
    it(`${name} fits into 1048576, also mirrored in time`, () => {
      const bs = read(name);
      const end = Math.max(...bs.map((b) => b.upper));
      const mirrored = bs.map((b) => ({ lower: end - b.upper, upper: end - b.lower, size: b.size }));
      for (const x of [bs, mirrored]) {
        const plan = expectValid(x, { capacity: 1048576, budget: 4e9 });
        expect(plan.peak).toBeLessThanOrEqual(1048576);
      }
    });
  }

  for (const name of names.filter((f) => !f.includes(".1048576."))) {
    it(`${join("planning", name)} reaches its lower bound`, () => {
      expect(expectValid(read(name), { budget: 1e9 }).optimal).toBe(true);
    });
  }
});
