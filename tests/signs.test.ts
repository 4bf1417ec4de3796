// Signed codes at both ends of their range times activations at theirs, -128 included, which only foreign columns hold: the
// integer sums must be exact, in file order and in quads, for single columns and for panels.
import { describe, expect, test } from "vitest";
import { CTRL_VECTORS, Flag, Op } from "../assembly/abi.ts";
import { dotType, mulMatDef } from "../ts/ops/mul_mat.ts";
import { rowBytes } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { BUILDS, Core, type Stored, stream } from "./core.ts";

const ROWS = 16;
const ONE = 0x3c00; // as f16
const LEVELS = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const X = [-128, -128, -127, -1, 0, 1, 127, 127];
const W = [-128, -128, 127, 127, 0, -1];
const CODES = [0, 0, 15, 15, 7, 8];

/** Blocks of a row or a column: their bytes, and the numbers that they stand for. */
interface Row {
  readonly bytes: Uint8Array;
  readonly values: readonly number[];
}

// One of a list; of the first ones of a row always the same, so that both ends meet themselves and each other.
function picker(of: readonly number[], next: () => number): (i: number) => number {
  return (i) => of[i < 32 ? 0 : i < 64 ? of.length - 1 : Math.floor(((next() + 1) / 2) * of.length)]!;
}

// Q8_0 with all scales 1.
function bytesRow(nb: number, code: (i: number) => number): Row {
  const bytes = new Uint8Array(34 * nb);
  const values = Array.from({ length: 32 * nb }, (_, i) => code(i));
  for (let b = 0; b < nb; b++) {
    bytes.set([ONE & 255, ONE >> 8, ...values.slice(32 * b, 32 * b + 32)], 34 * b);
  }
  return { bytes, values };
}

// Nibbles of 32 codes as they stand in 16 bytes.
function nibbles(codes: readonly number[]): number[] {
  return Array.from({ length: 16 }, (_, i) => codes[i]! | (codes[i + 16]! << 4));
}

function iq4nlRow(nb: number, code: (i: number) => number): Row {
  const codes = Array.from({ length: 32 * nb }, (_, i) => code(i));
  const bytes = new Uint8Array(18 * nb);
  for (let b = 0; b < nb; b++) {
    bytes.set([ONE & 255, ONE >> 8, ...nibbles(codes.slice(32 * b, 32 * b + 32))], 18 * b);
  }
  return { bytes, values: codes.map((q) => LEVELS[q]!) };
}

// Scales from -32 to 31.
function iq4xsRow(nb: number, code: (i: number) => number, next: () => number): Row {
  const codes = Array.from({ length: 256 * nb }, (_, i) => code(i));
  const scales = Array.from({ length: 8 * nb }, (_, i) => (i === 0 ? 0 : Math.floor(32 * (next() + 1))));
  const bytes = new Uint8Array(136 * nb);
  for (let b = 0; b < nb; b++) {
    const s = scales.slice(8 * b, 8 * b + 8);
    const high = s.reduce((bits, v, i) => bits | ((v >> 4) << (2 * i)), 0);
    const low = [0, 2, 4, 6].map((i) => (s[i]! & 15) | ((s[i + 1]! & 15) << 4));
    const runs = s.flatMap((_, i) => nibbles(codes.slice(256 * b + 32 * i, 256 * b + 32 * i + 32)));
    bytes.set([ONE & 255, ONE >> 8, high & 255, high >> 8, ...low, ...runs], 136 * b);
  }
  return { bytes, values: codes.map((q, i) => LEVELS[q]! * (scales[i >> 5]! - 32)) };
}

// Q8_K with all scales 1.
function superColumn(nb: number, code: (i: number) => number): Row {
  const values = Array.from({ length: 256 * nb }, (_, i) => code(i));
  const bytes = new Uint8Array(292 * nb);
  for (let b = 0; b < nb; b++) {
    const q = values.slice(256 * b, 256 * b + 256);
    const sums = Array.from({ length: 16 }, (_, i) =>
      q.slice(16 * i, 16 * i + 16).reduce((s, x) => s + x, 0),
    );
    bytes.set(new Uint8Array(Float32Array.of(1).buffer), 292 * b);
    bytes.set(q, 292 * b + 4);
    bytes.set(new Uint8Array(Int16Array.from(sums).buffer), 292 * b + 260);
  }
  return { bytes, values };
}

function weightRow(type: Type, nb: number, next: () => number): Row {
  if (type === Type.Q8_0) return bytesRow(nb, picker(W, next));
  if (type === Type.IQ4_NL) return iq4nlRow(nb, picker(CODES, next));
  return iq4xsRow(nb, picker(CODES, next), next);
}

// The f32 sum, in order, of what is exact within a block.
function expected(a: Row, b: Row, blockSize: number): number {
  let sum = 0;
  for (let i = 0; i < a.values.length; i += blockSize) {
    let dot = 0;
    for (let j = i; j < i + blockSize; j++) dot += a.values[j]! * b.values[j]!;
    sum = Math.fround(sum + Math.fround(dot));
  }
  return sum;
}

function product(core: Core, a: Stored, b: Stored): Float32Array {
  const { ne } = mulMatDef.infer([a, b]);
  const scratch = mulMatDef.scratch!({ type: Type.F32, ne, nb: [4, 0, 0, 0] }, [a, b], 1);
  return core.read(core.compute({ op: Op.MUL_MAT, src: [a, b], scratch }, Type.F32, ne));
}

function joined(rows: readonly Row[]): Uint8Array {
  return Uint8Array.from(rows.flatMap((r) => [...r.bytes]));
}

describe.each(BUILDS)("signed codes, %s", (build) => {
  test.each([Type.Q8_0, Type.IQ4_NL, Type.IQ4_XS].map((t) => [Type[t], t] as const))(
    "%s has exact sums at the ends of codes and activations",
    async (_, type) => {
      const core = await Core.load(build);
      core.probeDot();
      const { blockSize } = typeInfo(type)!;
      for (const [nb, n] of [1, 4, 9].flatMap((nb) => [1, 2, 3, 5, 13].map((n) => [nb, n] as const))) {
        core.reset();
        const next = stream(100 * nb + n);
        const k = nb * blockSize;
        const rows = Array.from({ length: ROWS }, () => weightRow(type, nb, next));
        const columns = Array.from({ length: n }, () =>
          (dotType(type) === Type.Q8_K ? superColumn : bytesRow)(nb, picker(X, next)),
        );
        const want = columns.flatMap((b) => rows.map((a) => expected(a, b, blockSize)));
        const b = core.leaf(dotType(type), [k, n], joined(columns));
        const file = core.leaf(type, [k, ROWS], joined(rows));
        const laid = core.leaf(type, [k, ROWS], joined(rows));
        expect(core.toQuads(type, laid.data, rowBytes(type, k), ROWS)).toBe(true);
        core.setFlags(laid, Flag.QUADS);
        for (const wider of [0, 1]) {
          core.bytes[CTRL_VECTORS] = wider;
          expect([...product(core, file, b)], `file order, ${nb} blocks, ${n} columns`).toEqual(want);
          expect([...product(core, laid, b)], `quads, ${nb} blocks, ${n} columns`).toEqual(want);
        }
      }
    },
  );
});
