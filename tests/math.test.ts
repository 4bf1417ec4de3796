// Accuracy of the elementwise functions over their whole range, and the conversions of 16-bit floats code by code.
import { beforeAll, describe, expect, test } from "vitest";
import { Op, Unary } from "../assembly/abi.ts";
import { fromBF16, fromF16, toBF16, toF16 } from "../ts/graph/elements.ts";
import { Type } from "../ts/types.ts";
import { UNARY } from "./cases/unary.ts";
import { Core } from "./core.ts";

let core: Core;

beforeAll(async () => {
  core = await Core.load();
});

// `n` numbers from lo to hi, evenly, as f32.
function sweep(lo: number, hi: number, n = 100_003): Float32Array {
  return Float32Array.from({ length: n }, (_, i) => lo + ((hi - lo) * i) / (n - 1));
}

function map(op: Op, x: Float32Array, params: readonly number[] = []): Float32Array {
  core.reset();
  const src = core.leaf(Type.F32, [x.length], x);
  return core.read(core.compute({ op, src: [src], params }, Type.F32, [x.length]));
}

// Largest error relative to max(|f(x)|, floor).
function worst(got: Float32Array, x: Float32Array, f: (x: number) => number, floor: number): number {
  let error = 0;
  x.forEach((v, i) => {
    const want = f(v);
    const e = want === got[i] ? 0 : Math.abs(got[i]! - want) / Math.max(Math.abs(want), floor);
    error = e > error || Number.isNaN(e) ? e : error;
  });
  return error;
}

interface Bound {
  readonly fn: keyof typeof UNARY;
  readonly lo: number;
  readonly hi: number;
  readonly bound: number;
  /** values below count as this much; 0 = relative error everywhere */
  readonly floor?: number;
}

const BOUNDS: readonly Bound[] = [
  { fn: Unary.EXP, lo: -87.3, hi: 88.7, bound: 1e-7 },
  { fn: Unary.EXPM1, lo: -20, hi: 20, bound: 1.5e-7 },
  { fn: Unary.EXPM1, lo: -1e-3, hi: 1e-3, bound: 1.5e-7 },
  { fn: Unary.TANH, lo: -12, hi: 12, bound: 2e-7 },
  { fn: Unary.TANH, lo: -1e-3, hi: 1e-3, bound: 2e-7 },
  { fn: Unary.SIGMOID, lo: -80, hi: 80, bound: 1.5e-7 },
  { fn: Unary.SILU, lo: -80, hi: 80, bound: 2e-7 },
  { fn: Unary.SOFTPLUS, lo: -80, hi: 80, bound: 2e-7 },
  { fn: Unary.GELU, lo: -40, hi: 40, bound: 1.5e-7, floor: 1 },
  { fn: Unary.GELU_QUICK, lo: -40, hi: 40, bound: 2e-7, floor: 1 },
  { fn: Unary.GELU_ERF, lo: -40, hi: 40, bound: 2e-7, floor: 1 },
];

const NAMES = ["inf", "-inf", "nan"] as const;
const SPECIAL = Float32Array.of(Infinity, -Infinity, NaN);

describe("math", () => {
  test.each(BOUNDS.map((b) => [Unary[b.fn], b] as const))("%s stays within its stated error", (_name, b) => {
    const x = sweep(b.lo, b.hi);
    expect(worst(map(Op.UNARY, x, [b.fn]), x, UNARY[b.fn], b.floor ?? 0)).toBeLessThan(b.bound);
  });

  test.each([
    ["LOG", Op.LOG, 1e-6, 100, Math.log, 0],
    ["SIN up to a million", Op.SIN, -1e6, 1e6, Math.sin, 0],
    ["COS up to a million", Op.COS, -1e6, 1e6, Math.cos, 0],
    ["COS near 0", Op.COS, -7, 7, Math.cos, 0],
  ] as const)("%s is right to the last bit or two", (_name, op, lo, hi, f, floor) => {
    const x = sweep(lo, hi);
    expect(worst(map(op, x), x, f, floor)).toBeLessThan(1.2e-7);
  });

  test("exp passes through the subnormals to zero and overflows to infinity", () => {
    const x = Float32Array.of(-88, -95, -103, -104, -1000, -Infinity, 88.8, 1000, Infinity, NaN);
    const y = map(Op.UNARY, x, [Unary.EXP]);
    x.forEach((v, i) => {
      const want = Math.fround(Math.exp(v));
      if (!Object.is(want, y[i])) expect(Math.abs(y[i]! - want)).toBeLessThanOrEqual(2 ** -148);
    });
    expect(Array.from(y.subarray(4))).toEqual([0, 0, Infinity, Infinity, Infinity, NaN]);
  });

  test.each([
    [Unary.TANH, [1, -1, NaN]],
    [Unary.SIGMOID, [1, 0, NaN]],
    [Unary.SOFTPLUS, [Infinity, 0, NaN]],
    [Unary.EXPM1, [Infinity, -1, NaN]],
    [Unary.ELU, [Infinity, -1, NaN]],
  ] as const)("function %i at infinities and NaN", (fn, want) => {
    const y = map(Op.UNARY, SPECIAL, [fn]);
    NAMES.forEach((name, i) => expect([name, y[i]]).toEqual([name, want[i]]));
  });
});

// All codes of a 16-bit type.
const CODES = Uint16Array.from({ length: 65536 }, (_, i) => i);

describe.each([
  ["F16", Type.F16, fromF16, toF16],
  ["BF16", Type.BF16, fromBF16, toBF16],
] as const)("%s", (_name, type, decode, encode) => {
  test("every code widens to its value, in rows and one by one", () => {
    core.reset();
    const row = core.leaf(type, [65536], CODES);
    const wide = core.read(core.compute({ op: Op.CPY, src: [row] }, Type.F32, [65536]));
    // columns of one element take the path of single elements
    const single = core.leaf(type, [1, 65536], row.data);
    const one = core.read(core.compute({ op: Op.GET_ROWS, src: [single, ids()] }, Type.F32, [1, 65536]));
    const wrong = CODES.findIndex((c) => !Object.is(wide[c], decode(c)) || !Object.is(one[c], decode(c)));
    expect(wrong).toBe(-1);
  });

  test("every value, its neighbours and the ties between codes narrow to the nearest code, ties to even", () => {
    const x = around(decode);
    core.reset();
    const src = core.leaf(Type.F32, [x.length], x);
    const y = core.compute({ op: Op.CPY, src: [src] }, type, [x.length]);
    const got = new Uint16Array(core.bytes.slice(y.data, y.data + 2 * x.length).buffer);
    const wrong = x.findIndex(
      (v, i) => got[i] !== encode(v) && !(Number.isNaN(v) && Number.isNaN(decode(got[i]!))),
    );
    expect(wrong).toBe(-1);
    expect(x.findIndex((v, i) => Number.isFinite(v) && !nearest(v, got[i]!, decode))).toBe(-1);
  });
});

function ids(): ReturnType<Core["leaf"]> {
  return core.leaf(Type.I32, [65536], Int32Array.from(CODES));
}

const bits = new Uint32Array(1);
const float = new Float32Array(bits.buffer);

// The f32 `step` codes away.
function next(x: number, step: number): number {
  float[0] = x;
  bits[0] = bits[0]! + step;
  return float[0];
}

// Values of all codes, the ties between neighbours, and the f32 on either side of both.
function around(decode: (h: number) => number): Float32Array {
  const out: number[] = [];
  for (const h of CODES) {
    const v = decode(h);
    const tie = (v + decode((h + 1) & 0xffff)) / 2;
    for (const x of [v, tie])
      out.push(x, ...(Number.isFinite(x) && x !== 0 ? [next(x, 1), next(x, -1)] : []));
  }
  return Float32Array.from(out);
}

// No neighbouring code is nearer, and at a tie the code is even.
function nearest(x: number, code: number, decode: (h: number) => number): boolean {
  const distance = Math.abs(decode(code) - x);
  return [code - 1, code + 1].every((c) => {
    if (((c ^ code) & 0x8000) !== 0 || !Number.isFinite(decode(c & 0xffff))) return true;
    const other = Math.abs(decode(c & 0xffff) - x);
    return distance < other || (distance === other && code % 2 === 0) || !Number.isFinite(distance);
  });
}
