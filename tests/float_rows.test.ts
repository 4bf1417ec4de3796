// Products of floats, few columns row by row and more as panels: bit by bit what sixteen partial sums give, for numbers of every
// kind, fused in the relaxed build where the engine has such an instruction.
import { describe, expect, test } from "vitest";
import { CTRL_VECTORS, Op } from "../assembly/abi.ts";
import { mulMatDef } from "../ts/ops/mul_mat.ts";
import { type Strides } from "../ts/shape.ts";
import { Type } from "../ts/types.ts";
import { BUILDS, Core, type Stored, samples, stream } from "./core.ts";

const TYPES = [Type.F16, Type.BF16].map((t) => [Type[t], t] as const);
/** Row by row, and the first that is a panel. */
const COLUMNS = [1, 2, 3, 5];
const ONE: Record<number, number> = { [Type.F16]: 0x3c00, [Type.BF16]: 0x3f80 };
const TWO = 0x4000;
const INFINITE: Record<number, number> = { [Type.F16]: 0x7c00, [Type.BF16]: 0x7f80 };

const u32 = new Uint32Array(1);
const f32 = new Float32Array(u32.buffer);

/** What a code stands for. */
function decode(type: Type, h: number): number {
  if (type === Type.F32) return h;
  if (type === Type.BF16) {
    u32[0] = h << 16;
    return f32[0]!;
  }
  const [e, f] = [(h >> 10) & 31, h & 1023];
  const size = e === 31 ? (f === 0 ? Infinity : NaN) : e === 0 ? f * 2 ** -24 : (1024 + f) * 2 ** (e - 25);
  return h & 0x8000 ? -size : size;
}

const f64 = new Float64Array(1);
const bits = new BigInt64Array(f64.buffer);

/** acc + w * x, rounded to f32 once: the sum in double precision, whose last bit says whether something was lost. */
function fused(w: number, x: number, acc: number): number {
  const p = w * x; // exact: 48 bits
  const sum = acc + p;
  const part = sum - acc;
  const lost = acc - (sum - part) + (p - part);
  if (Number.isFinite(sum) && lost !== 0) {
    f64[0] = sum;
    if ((bits[0]! & 1n) === 0n) bits[0]! += lost > 0 === sum > 0 ? 1n : -1n;
    return Math.fround(f64[0]);
  }
  return Math.fround(sum);
}

const apart = (w: number, x: number, acc: number): number => Math.fround(acc + Math.fround(w * x));

type Madd = typeof fused;

/** One element: a partial sum for each k modulo 16, added in pairs. */
function element(madd: Madd, w: readonly number[], x: ArrayLike<number>): number {
  const s = new Float32Array(16);
  w.forEach((v, k) => (s[k % 16] = madd(v, x[k]!, s[k % 16]!)));
  const add = (a: number, b: number): number => Math.fround(a + b);
  const eight = Array.from({ length: 8 }, (_, c) => add(s[c]!, s[c + 8]!));
  const even = add(add(eight[0]!, eight[4]!), add(eight[2]!, eight[6]!));
  return add(even, add(add(eight[1]!, eight[5]!), add(eight[3]!, eight[7]!)));
}

/** How this core adds a product: (1 + 2^-12)(1 + 2^-12) - (1 + 2^-11) is 2^-24, or 0 where the product is rounded first. */
function maddOf(core: Core): Madd {
  core.reset();
  const w = new Float32Array(17);
  const x = new Float32Array(17);
  w[0] = -(1 + 2 ** -11);
  x[0] = 1;
  w[16] = x[16] = 1 + 2 ** -12;
  const y = product(core, core.leaf(Type.F32, [17, 1], w), core.leaf(Type.F32, [17, 1], x))[0]!;
  expect([0, 2 ** -24]).toContain(y);
  return y === 0 ? apart : fused;
}

/** Codes of either sign below `top` in size: zeros of both signs and subnormals among them. */
function codes(n: number, top: number, next: () => number): Uint16Array {
  return Uint16Array.from({ length: n }, (_, i) => {
    const size = i % 5 === 0 ? Math.floor(Math.abs(next()) * 0x0500) : Math.floor(Math.abs(next()) * top);
    return (i % 11 === 3 ? 0 : size) | (next() < 0 ? 0x8000 : 0);
  });
}

function product(core: Core, a: Stored, b: Stored): Float32Array {
  const { ne } = mulMatDef.infer([a, b]);
  const scratch = mulMatDef.scratch!({ type: Type.F32, ne, nb: [4, 0, 0, 0] }, [a, b], 1);
  return core.read(core.compute({ op: Op.MUL_MAT, src: [a, b], scratch }, Type.F32, ne)) as Float32Array;
}

interface Case {
  readonly type: Type;
  readonly k: number;
  readonly m: number;
  /** Of all weights, m rows of k. */
  readonly w: Uint16Array | Float32Array;
  /** Columns of k. */
  readonly x: Float32Array;
}

function check(core: Core, { type, k, m, w, x }: Case, what: string): void {
  const madd = maddOf(core);
  core.reset();
  const n = x.length / k;
  const y = product(core, core.leaf(type, [k, m], w), core.leaf(Type.F32, [k, n], x));
  const rows = Array.from({ length: m }, (_, r) =>
    Array.from(w.subarray(r * k, (r + 1) * k), (h) => decode(type, h)),
  );
  for (let c = 0; c < n; c++) {
    const column = x.subarray(c * k, (c + 1) * k);
    expect([...y.subarray(c * m, (c + 1) * m)], `${what}, k ${k}, column ${c} of ${n}`).toEqual(
      rows.map((row) => element(madd, row, column)),
    );
  }
}

describe.each(BUILDS)("products of floats, %s", (build) => {
  test.each([...TYPES, ["F32", Type.F32] as const])(
    "%s has the bits of sixteen partial sums for odd sizes",
    async (_, type) => {
      const core = await Core.load(build);
      for (const k of [1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 577]) {
        for (const m of [1, 3, 9]) {
          for (const n of COLUMNS) {
            const next = stream(k + 100 * m + n);
            const w = type === Type.F32 ? samples(m * k, next) : codes(m * k, ONE[type]!, next);
            check(core, { type, k, m, w, x: samples(n * k, next) }, "small");
          }
        }
      }
    },
  );

  test.each([...TYPES, ["F32", Type.F32] as const])(
    "%s has them however many columns, panels and pairs of panels there are",
    async (_, type) => {
      const core = await Core.load(build);
      for (const [k, m] of [
        [513, 17],
        [512, 8],
        [40, 25],
      ] as const) {
        for (const n of [4, 5, 6, 7, 8, 9, 10, 13, 14, 19, 20]) {
          const next = stream(k + 100 * m + n);
          const w = type === Type.F32 ? samples(m * k, next) : codes(m * k, ONE[type]!, next);
          for (const wider of [0, 1]) {
            core.bytes[CTRL_VECTORS] = wider;
            check(core, { type, k, m, w, x: samples(n * k, next) }, `pairs ${wider}`);
          }
        }
      }
    },
  );

  test.each(TYPES)("%s of 2 and more is multiplied as well as less", async (_, type) => {
    const core = await Core.load(build);
    for (const k of [7, 40, 75]) {
      const next = stream(k);
      check(
        core,
        { type, k, m: 5, w: codes(5 * k, INFINITE[type]! - 1, next), x: samples(2 * k, next) },
        "all",
      );
    }
  });

  test.each(TYPES)("infinities and NaN in rows of %s stay in their rows", async (_, type) => {
    const core = await Core.load(build);
    const [inf, nan] = [INFINITE[type]!, INFINITE[type]! + 1];
    for (const k of [3, 8, 33, 64]) {
      for (const special of [inf, inf | 0x8000, nan, nan | 0x8000, TWO]) {
        for (const at of [0, 1, (k - 1) & ~15, k - 1]) {
          const next = stream(k + at);
          const w = codes(4 * k, ONE[type]!, next);
          w[2 * k + at] = special;
          check(core, { type, k, m: 4, w, x: samples(2 * k, next) }, `0x${special.toString(16)} at ${at}`);
        }
      }
    }
  });

  test.each(TYPES)("columns of %s may hold numbers of any size, infinities and NaN", async (_, type) => {
    const core = await Core.load(build);
    for (const k of [3, 16, 33]) {
      for (const special of [65535.996, 65536, -7e4, 1e30, 3.4e38, Infinity, -Infinity, NaN, 1e-40, -0]) {
        for (const at of [0, 1, k - 1]) {
          const next = stream(k + at);
          const w = codes(3 * k, ONE[type]!, next);
          const x = samples(3 * k, next);
          x[k + at] = special;
          check(core, { type, k, m: 3, w, x }, `${special} at ${at}`);
        }
      }
    }
  });

  test.each(TYPES)("rows of %s may have gaps and be repeated over dimensions 2 and 3", async (_, type) => {
    const core = await Core.load(build);
    const [k, m] = [33, 3];
    const madd = maddOf(core);
    core.reset();
    const next = stream(9);
    const w = codes(2 * 2 * 2 * m * k, ONE[type]!, next);
    const x = samples(k * 2 * 4 * 6, next);
    const stored = core.leaf(type, [2 * k, m, 2, 2], w);
    const a = core.leaf(type, [k, m, 2, 2], stored.data, stored.nb as Strides);
    const y = product(core, a, core.leaf(Type.F32, [k, 2, 4, 6], x));
    const expected: number[] = [];
    for (let c = 0; c < 48; c++) {
      const [i2, i3] = [Math.floor((Math.floor(c / 2) % 4) / 2), Math.floor(c / 8 / 3)];
      for (let r = 0; r < m; r++) {
        const at = 2 * k * (r + m * (i2 + 2 * i3));
        const row = Array.from(w.subarray(at, at + k), (h) => decode(type, h));
        expected.push(element(madd, row, x.subarray(c * k, (c + 1) * k)));
      }
    }
    expect([...y]).toEqual(expected);
  });
});
