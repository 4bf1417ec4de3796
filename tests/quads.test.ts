// Weights in quads against the same weights in file order: the layout and back, products and rows, in both builds.
import { describe, expect, test } from "vitest";
import { Flag, Op } from "../assembly/abi.ts";
import { dotType, mulMatDef } from "../ts/ops/mul_mat.ts";
import { rowBytes } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { BUILDS, Core, type Stored, samples, stream } from "./core.ts";

const TYPES = [Type.Q4_0, Type.Q5_0, Type.Q8_0, Type.Q4_K, Type.Q6_K].map((t) => [Type[t], t] as const);

// Bytes of a block where f16 scales stand.
function scalesAt(type: Type): readonly number[] {
  if (type === Type.Q6_K) return [208];
  return type === Type.Q4_K ? [0, 2] : [0];
}

// Random bits; scales of every exponent that can be lifted, subnormal ones and both zeros included.
function weights(type: Type, k: number, m: number, seed: number): Uint8Array {
  const next = stream(seed);
  const { typeSize } = typeInfo(type)!;
  const bytes = Uint8Array.from({ length: rowBytes(type, k) * m }, () => 128 * (next() + 1));
  for (let at = 0, i = 0; at < bytes.length; at += typeSize) {
    for (const offset of scalesAt(type)) {
      const exponent = i++ % 21;
      const mantissa = i % 7 === 0 ? 0 : Math.floor(512 * (next() + 1));
      const h = (next() < 0 ? 0x8000 : 0) | (exponent << 10) | mantissa;
      bytes[at + offset] = h & 255;
      bytes[at + offset + 1] = h >> 8;
    }
  }
  return bytes;
}

// The same rows in quads. Throws when they cannot be.
function quads(core: Core, type: Type, k: number, m: number, bytes: Uint8Array): Stored {
  const t = core.leaf(type, [k, m], bytes);
  if (!core.toQuads(type, t.data, rowBytes(type, k), m)) throw new Error("not put in quads");
  core.setFlags(t, Flag.QUADS);
  return t;
}

function product(core: Core, a: Stored, b: Stored): Float32Array {
  const { ne } = mulMatDef.infer([a, b]);
  const scratch = mulMatDef.scratch!({ type: Type.F32, ne, nb: [4, 0, 0, 0] }, [a, b], 1);
  return core.read(core.compute({ op: Op.MUL_MAT, src: [a, b], scratch }, Type.F32, ne));
}

// Activations, with a block of zeros and one of large values.
function activations(core: Core, type: Type, k: number, n: number): Stored {
  const x = samples(k * n, stream(k + n));
  x.fill(0, 0, 16);
  for (let i = 32; i < Math.min(64, x.length); i++) x[i]! *= 1000;
  return core.leaf(dotType(type), [k, n], core.quantize(dotType(type), x));
}

function bits(x: Float32Array): Uint32Array {
  return new Uint32Array(x.buffer, x.byteOffset, x.length);
}

describe.each(BUILDS)("quads, %s", (build) => {
  test.each(TYPES)("%s goes to quads and back, byte for byte", async (_, type) => {
    const core = await Core.load(build);
    for (const [blocks, rows] of [
      [1, 4],
      [3, 8],
      [5, 36],
    ] as const) {
      core.reset();
      const k = blocks * typeInfo(type)!.blockSize;
      const bytes = weights(type, k, rows, blocks);
      const p = core.put(bytes);
      const guard = core.put(new Uint8Array(64).fill(0xa5));
      expect(core.toQuads(type, p, rowBytes(type, k), rows)).toBe(true);
      expect(core.bytes.slice(p, p + bytes.length)).not.toEqual(bytes);
      expect(core.fromQuads(type, p, rowBytes(type, k), rows)).toBe(true);
      expect(core.bytes.slice(p, p + bytes.length)).toEqual(bytes);
      expect(core.bytes.slice(guard, guard + 64).every((b) => b === 0xa5)).toBe(true);
    }
  });

  test("every f16 that can be lifted comes back, and no other is taken", async () => {
    const core = await Core.load(build);
    for (let h = 0; h < 0x10000; h += 61) {
      core.reset();
      const row = weights(Type.Q4_0, 32, 4, 1);
      row[36] = h & 255;
      row[37] = h >> 8;
      const p = core.put(row);
      const fits = (h & 0x7c00) <= 0x5000;
      expect(core.toQuads(Type.Q4_0, p, 18, 4)).toBe(fits);
      if (fits) core.fromQuads(Type.Q4_0, p, 18, 4);
      expect(core.bytes.slice(p, p + row.length)).toEqual(row);
    }
  });

  test("odd row counts, other types and scales of 64 and above stay as they are", async () => {
    const core = await Core.load(build);
    for (const [type, at] of [
      [Type.Q4_0, 3 * 18],
      [Type.Q4_K, 2 * 144 + 2],
      [Type.Q6_K, 3 * 210 + 208],
    ] as const) {
      const { blockSize, typeSize } = typeInfo(type)!;
      const p = core.put(weights(type, blockSize, 4, 2));
      for (const h of [0x5400, 0x7c00, 0xfe00]) {
        core.bytes[p + at] = h & 255;
        core.bytes[p + at + 1] = h >> 8;
        const before = core.bytes.slice(p, p + 4 * typeSize);
        expect(core.toQuads(type, p, typeSize, 4)).toBe(false);
        expect(core.bytes.slice(p, p + 4 * typeSize)).toEqual(before);
      }
    }
    for (const rows of [1, 3, 31, 33]) {
      const p = core.put(weights(Type.Q8_0, 32, rows, 3));
      expect(core.toQuads(Type.Q8_0, p, 34, rows)).toBe(false);
    }
    expect(core.toQuads(Type.F16, core.put(new Uint8Array(64)), 16, 4)).toBe(false);
  });

  test.each(TYPES)("%s products have the bits of file order for any number of columns", async (_, type) => {
    const core = await Core.load(build);
    for (const [blocks, m] of [
      [1, 4],
      [3, 12],
      [5, 32],
      [9, 20],
    ] as const) {
      for (const n of [1, 2, 3, 4, 5, 33]) {
        core.reset();
        const k = blocks * typeInfo(type)!.blockSize;
        const bytes = weights(type, k, m, 10 * m + n);
        const b = activations(core, type, k, n);
        const want = product(core, core.leaf(type, [k, m], bytes), b);
        const got = product(core, quads(core, type, k, m, bytes), b);
        expect(want.some((x) => x !== 0 && Number.isFinite(x))).toBe(true);
        expect(bits(got), `m ${m}, n ${n}, k ${k}`).toEqual(bits(want));
      }
    }
  });

  test.each(TYPES)("get_rows of %s has the bits of file order", async (_, type) => {
    const core = await Core.load(build);
    const k = 3 * typeInfo(type)!.blockSize;
    const bytes = weights(type, k, 12, 5);
    const ids = core.leaf(Type.I32, [5], Int32Array.of(11, 0, 6, 5, 1));
    const rows = (table: Stored): Uint32Array =>
      bits(core.read(core.compute({ op: Op.GET_ROWS, src: [table, ids] }, Type.F32, [k, 5])));
    const want = rows(core.leaf(type, [k, 12], bytes));
    expect(rows(quads(core, type, k, 12, bytes))).toEqual(want);
  });
});

test("both builds lay the same bytes and give the same bits", async () => {
  const results = await Promise.all(
    BUILDS.map(async (build) => {
      const core = await Core.load(build);
      return TYPES.flatMap(([, type]) => {
        core.reset();
        const k = 3 * typeInfo(type)!.blockSize;
        const a = quads(core, type, k, 8, weights(type, k, 8, 6));
        const laid = core.bytes.slice(a.data, a.data + 8 * rowBytes(type, k));
        return [laid, ...[1, 5].map((n) => bits(product(core, a, activations(core, type, k, n))))];
      });
    }),
  );
  for (const r of results) expect(r).toEqual(results[0]);
});
