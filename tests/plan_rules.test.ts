// Rules beyond lifetimes and sizes: pre-placed buffers, an alignment per buffer, chunks of a maximum size.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { GraphError } from "../ts/errors.ts";
import type { Lifetime, PlanOptions } from "../ts/runtime/plan_check.ts";
import { type BufferPlan, planBuffers } from "../ts/runtime/plan_list.ts";
import { MAX_FIXED } from "../ts/runtime/plan_rules.ts";
import { planWasm } from "./plan_data.ts";
import { packing, random } from "./plan_lists.ts";

const host = planWasm();
const alive = (b: Lifetime): boolean => b.size > 0 && b.upper > b.lower;

/** Everything a plan must keep, by looking at every pair: places apart, rules kept, figures right. */
function ruleFaults(bs: readonly Lifetime[], p: BufferPlan, o: PlanOptions = {}): string[] {
  const out: string[] = [];
  const ends = p.chunks.map(() => 0);
  bs.forEach((b, i) => {
    const at = p.offsets[i]!;
    const chunk = p.chunkOf[i]!;
    if (!(at >= 0) || at % (b.alignment ?? o.alignment ?? 1) !== 0) out.push(`${i}: offset ${at}`);
    if (b.offset !== undefined && (at !== b.offset || chunk !== 0)) out.push(`${i}: moved to ${at}`);
    if (!alive(b)) return;
    ends[chunk] = Math.max(ends[chunk]!, at + b.size);
    bs.slice(0, i).forEach((c, j) => {
      if (!alive(c) || p.chunkOf[j] !== chunk || c.upper <= b.lower || b.upper <= c.lower) return;
      if (p.offsets[j]! < at + b.size && at < p.offsets[j]! + c.size) out.push(`${i} overlaps ${j}`);
    });
  });
  ends.forEach((end, k) => {
    if (end > p.chunks[k]!) out.push(`chunk ${k} ends at ${end}, beyond ${p.chunks[k]!}`);
  });
  if (p.chunks.reduce((a, b) => a + b, 0) !== p.peak) out.push("chunks do not add up to the peak");
  if (p.peak < p.lowerBound) out.push("below the bound");
  return out;
}

/** Whether the buffers after those in `offsets` can be placed below `capacity`: every offset is tried. */
function fits(bs: readonly Lifetime[], capacity: number, offsets: number[] = []): boolean {
  const i = offsets.length;
  const b = bs[i];
  if (b === undefined) return true;
  const [from, to] = b.offset === undefined ? [0, capacity - b.size] : [b.offset, b.offset];
  for (let at = from; at <= to && at + b.size <= capacity; at += b.alignment ?? 1) {
    const free = bs.every((c, j) => {
      const o = j < i ? offsets[j]! : c.offset;
      return j === i || o === undefined || !alive(c) || !alive(b)
        ? true
        : c.upper <= b.lower || b.upper <= c.lower || o + c.size <= at || at + b.size <= o;
    });
    if (free && fits(bs, capacity, [...offsets, at])) return true;
  }
  return false;
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}

/** Least peak in whole multiples of what divides all alignments: what lies beyond an end cannot be used. */
function leastPeak(list: readonly Lifetime[]): number {
  const unit = list.reduce((g, b) => gcd(b.alignment ?? 1, g), 0);
  const bs = list.map((b) => ({ ...b, size: Math.ceil(b.size / unit) * unit }));
  let peak = 0;
  while (!fits(bs, peak)) peak++;
  return peak;
}

const buffer = fc.record({
  lower: fc.integer({ min: 0, max: 30 }),
  length: fc.integer({ min: 0, max: 15 }),
  size: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.constantFrom(0, 1, 31, 32, 33)),
  alignment: fc.constantFrom(1, 1, 3, 8, 32, 100),
  at: fc.nat(400),
  kind: fc.nat(9),
});

interface Choice {
  lower: number;
  length: number;
  size: number;
  alignment: number;
  at: number;
  kind: number;
}

/** Lists with some buffers pre-placed; one that would lie on another is left free. */
function withRules(choices: readonly Choice[]): Lifetime[] {
  const out: Lifetime[] = [];
  for (const c of choices) {
    const b: Lifetime = { lower: c.lower, upper: c.lower + c.length, size: c.size, alignment: c.alignment };
    const offset = c.at - (c.at % c.alignment);
    const apart = out.every(
      (x) =>
        x.offset === undefined ||
        x.upper <= b.lower ||
        b.upper <= x.lower ||
        x.offset + x.size <= offset ||
        offset + b.size <= x.offset,
    );
    out.push(c.kind < 3 && apart ? { ...b, offset } : b);
  }
  return out;
}

const lists = fc.array(buffer, { maxLength: 50 });

describe("random lists with rules", () => {
  it("keep pre-placed buffers and every alignment", () => {
    fc.assert(
      fc.property(lists, (choices) => {
        const bs = withRules(choices);
        expect(ruleFaults(bs, planBuffers(host, bs, { budget: 2e5 }))).toEqual([]);
      }),
      { numRuns: 300, seed: 1 },
    );
  });

  it("keep within chunks, those above the size in chunks of their own", () => {
    const size = fc.constantFrom(96, 100, 200, 1000);
    fc.assert(
      fc.property(lists, size, fc.constantFrom(1, 32), (choices, maxChunk, alignment) => {
        const bs = choices.map((c) => ({ lower: c.lower, upper: c.lower + c.length, size: c.size * 2 }));
        const o = { maxChunk, alignment, budget: 2e5 };
        const p = planBuffers(host, bs, o);
        expect(ruleFaults(bs, p, o)).toEqual([]);
        const pad = (x: number): number => Math.ceil(x / alignment) * alignment;
        p.chunks.forEach((bytes, k) => {
          const inside = bs.filter((b, i) => p.chunkOf[i] === k && alive(b));
          const own = inside.every((b) => pad(b.size) > Math.floor(maxChunk / alignment) * alignment);
          expect(bytes <= maxChunk || own, `chunk ${k} of ${bytes}`).toBe(true);
          if (own) expect(bytes).toBe(Math.max(0, ...inside.map((b) => pad(b.size))));
        });
      }),
      { numRuns: 200, seed: 2 },
    );
  });

  it("keep alignments of their own within chunks", () => {
    fc.assert(
      fc.property(lists, (choices) => {
        const bs = choices.map((c) => ({
          lower: c.lower,
          upper: c.lower + c.length,
          size: c.size,
          alignment: c.alignment === 100 ? 16 : c.alignment,
        }));
        const p = planBuffers(host, bs, { maxChunk: 200, budget: 2e5 });
        expect(ruleFaults(bs, p)).toEqual([]);
        expect(Math.max(0, ...p.chunks)).toBeLessThanOrEqual(200);
      }),
      { numRuns: 100, seed: 3 },
    );
  });

  it("give the same plan for the same seed, on a used and on a fresh instance", () => {
    fc.assert(
      fc.property(lists, fc.integer(), (choices, seed) => {
        const bs = withRules(choices);
        const a = planBuffers(host, bs, { seed, budget: 1e5 });
        const b = planBuffers(planWasm(), bs, { seed, budget: 1e5 });
        expect([b.offsets, b.work]).toEqual([a.offsets, a.work]);
      }),
      { numRuns: 30, seed: 4 },
    );
  });
});

it("short lists with rules get the smallest peak there is whenever it is called optimal, and it is", () => {
  const few = fc.array(
    fc.record({
      lower: fc.nat(4),
      length: fc.integer({ min: 1, max: 4 }),
      size: fc.integer({ min: 1, max: 5 }),
      alignment: fc.constantFrom(1, 2, 3),
      at: fc.nat(12),
      kind: fc.nat(9),
    }),
    { minLength: 1, maxLength: 6 },
  );
  fc.assert(
    fc.property(few, (choices) => {
      const bs = withRules(choices);
      const plan = planBuffers(host, bs, { budget: 1e6 });
      expect(ruleFaults(bs, plan)).toEqual([]);
      expect(plan.peak).toBe(leastPeak(bs));
      expect(plan.optimal).toBe(true);
    }),
    { numRuns: 400, seed: 5 },
  );
});

describe("lists of a special form", () => {
  it("the others lie below, between and above what is pre-placed", () => {
    const bs = [
      { lower: 0, upper: 9, size: 10, offset: 20 },
      { lower: 0, upper: 9, size: 10, offset: 50 },
      { lower: 1, upper: 2, size: 20 },
      { lower: 1, upper: 2, size: 20 },
      { lower: 1, upper: 2, size: 7 },
    ];
    const p = planBuffers(host, bs);
    expect(ruleFaults(bs, p)).toEqual([]);
    expect(p).toMatchObject({ peak: 67, lowerBound: 67, optimal: true });
  });

  it("all pre-placed: nothing moves, and the peak is the highest end", () => {
    const bs = [
      { lower: 0, upper: 2, size: 5, offset: 7 },
      { lower: 2, upper: 3, size: 9, offset: 100 },
      { lower: 2, upper: 2, size: 9, offset: 900 },
    ];
    const p = planBuffers(host, bs);
    expect([[...p.offsets], p.peak, p.optimal]).toEqual([[7, 100, 900], 109, true]);
  });

  it("a packing with a third of its pieces nailed down keeps them, and small ones find the rest", () => {
    for (const seed of [1, 2, 3]) {
      const c = packing(60, seed, 200, 6000);
      const r = random(seed);
      const solved = planBuffers(host, c, { budget: 1e8 });
      expect(solved.peak).toBe(6000);
      const offset = Array.from(solved.offsets, (x) => (r() < 0.3 ? x : NaN));
      const bs = offset.map((at, i) => {
        const b = { lower: c.lower[i]!, upper: c.upper[i]!, size: c.size[i]! };
        return Number.isNaN(at) ? b : { ...b, offset: at };
      });
      const p = planBuffers(host, { ...c, offset }, { budget: 1e8 });
      expect(ruleFaults(bs, p)).toEqual([]);
      expect(p.peak).toBe(6000);
    }
  });

  it("one alignment given per buffer is the same as given once", () => {
    const bs = Array.from({ length: 33 }, (_, i) => ({ lower: i, upper: i + 4, size: 1 + i * 7 }));
    const once = planBuffers(host, bs, { alignment: 32 });
    const each = planBuffers(
      host,
      bs.map((b) => ({ ...b, alignment: 32 })),
    );
    expect([each.offsets, each.peak]).toEqual([once.offsets, once.peak]);
  });

  it("a coarse alignment of a few costs less than of all", () => {
    const bs = Array.from({ length: 31 }, (_, i) => ({
      lower: 0,
      upper: 1,
      size: 33,
      alignment: i === 30 ? 256 : 1,
    }));
    expect(planBuffers(host, bs).peak).toBe(31 * 33);
    expect(planBuffers(host, bs, { alignment: 256 }).peak).toBe(31 * 33);
  });

  it("20,000 buffers among 300 pre-placed ones keep clear of them", () => {
    const r = random(7);
    const n = 20000;
    const bs = Array.from({ length: n }, (_, i): Lifetime => {
      const b = { lower: i, upper: i + 1 + Math.floor(20 * r()), size: 1 + Math.floor(1000 * r()) };
      return i % 67 === 0 ? { ...b, upper: i + 60, offset: (i / 67) % 2 === 0 ? 0 : 4000 } : b;
    });
    const p = planBuffers(host, bs, { budget: 0 });
    const window = (k: number): Lifetime[] => bs.slice(k, k + 1000);
    for (let k = 0; k < n; k += 900) {
      const part = { ...p, offsets: p.offsets.slice(k, k + 1000), chunkOf: p.chunkOf.slice(k, k + 1000) };
      expect(ruleFaults(window(k), part)).toEqual([]);
    }
  });

  it("large buffers never alive together share a chunk of their own", () => {
    const bs = [
      { lower: 0, upper: 2, size: 500 },
      { lower: 2, upper: 4, size: 400 },
      { lower: 3, upper: 5, size: 300 },
      { lower: 0, upper: 5, size: 60 },
      { lower: 0, upper: 5, size: 60 },
    ];
    const p = planBuffers(host, bs, { maxChunk: 100 });
    expect(ruleFaults(bs, p)).toEqual([]);
    expect([...p.chunks].sort((a, b) => a - b)).toEqual([60, 60, 300, 500]);
    expect([p.sum, p.lowerBound]).toEqual([1320, 820]);
  });
});

describe("contradictions are refused with a typed error", () => {
  const refused = (bs: readonly object[], options: PlanOptions = {}, code = "bad-plan"): void => {
    const call = (): unknown => planBuffers(host, bs as Lifetime[], options);
    expect(call).toThrow(GraphError);
    expect(call).toThrow(expect.objectContaining({ code }));
  };
  const one = { lower: 0, upper: 2, size: 10 };

  it("alignments and offsets that are none", () => {
    for (const alignment of [0, -1, 1.5, NaN, 2 ** 53]) refused([{ ...one, alignment }]);
    for (const offset of [-1, 0.5, Infinity, 2 ** 53]) refused([{ ...one, offset }]);
    refused([{ ...one, offset: 16, alignment: 32 }]);
    refused([{ ...one, offset: 16 }], { alignment: 32 });
  });

  it("pre-placed buffers that overlap, unless never alive together", () => {
    refused([
      { ...one, offset: 0 },
      { ...one, offset: 9 },
    ]);
    const apart = [
      { ...one, offset: 0 },
      { lower: 2, upper: 3, size: 10, offset: 9 },
    ];
    expect(planBuffers(host, apart).peak).toBe(19);
  });

  it("chunks that are none, smaller than an alignment, or beside pre-placed buffers", () => {
    for (const maxChunk of [0, -1, 1.5, NaN]) refused([one], { maxChunk });
    refused([one], { maxChunk: 31, alignment: 32 });
    refused(
      [
        { ...one, alignment: 7 },
        { ...one, alignment: 9 },
      ],
      { maxChunk: 62 },
    );
    refused([{ ...one, offset: 0 }], { maxChunk: 100 });
  });

  it("more pre-placed buffers than can be looked at, and offsets that could reach 2^53", () => {
    const n = MAX_FIXED + 1;
    const many = Array.from({ length: n }, (_, i) => ({ lower: i, upper: i + 1, size: 1, offset: 0 }));
    refused(many, {}, "too-large");
    refused([{ ...one, offset: 2 ** 53 - 2 }, one]);
    refused([
      { ...one, alignment: 2 ** 52 },
      { ...one, alignment: 3 },
    ]);
  });
});
