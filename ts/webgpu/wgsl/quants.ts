// WGSL that reads four elements of a row at a time, for every type a weight can have: raw bytes as the file has them.
//
// `quadSource(a, type)` gives `fn a_quad(row: u32, q: u32) -> vec4f`: elements 4q .. 4q+3 of the row at byte `row`. The
// layouts are drawn in assembly/quants. A nibble type keeps two quads in one word: quads q and q + quadStep(type).

import type { Operand } from "../../ops/op.ts";
import { Type, typeInfo } from "../../types.ts";

/** What the bodies below share: bytes of a word as numbers, and the levels of the tabulated types. */
export const QUAD_LIB = `
fn bytes4(w: u32) -> vec4u { return (vec4u(w) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(255u); }
fn ubytes(w: u32) -> vec4f { return vec4f(bytes4(w)); }
fn sbytes(w: u32) -> vec4f { return vec4f((vec4i(bitcast<i32>(w)) << vec4u(24u, 16u, 8u, 0u)) >> vec4u(24u)); }
fn halves(w: u32) -> vec2f { return unpack2x16float(w); }
fn bhalves(w: u32) -> vec2f { return bitcast<vec2f>(vec2u(w << 16u, w & 0xffff0000u)); }
fn fifth(h: u32) -> vec4f { return vec4f(((vec4u(h) >> vec4u(0u, 1u, 2u, 3u)) & vec4u(1u)) << vec4u(4u)); }
fn level(t: vec4u, q: u32) -> f32 {
  return f32(bitcast<i32>(t[q >> 2u] << (24u - (q & 3u) * 8u)) >> 24u);
}
fn levels(t: vec4u, w: u32) -> vec4f {
  let q = bytes4(w);
  return vec4f(level(t, q.x), level(t, q.y), level(t, q.z), level(t, q.w));
}
`;

const NL = "vec4u(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u)";
const FP4 = "vec4u(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu)";
const NIBBLE = "0x0f0f0f0fu";
/** Byte address of block q / per, and q's number in it. */
const block = (bytes: number, quads: number): string =>
  `let o = row + q / ${quads}u * ${bytes}u; let e = q % ${quads}u;`;
// Nibbles of blocks of 32: low ones are elements 0..15, high ones 16..31.
const nibbles = (a: string, at: number): string =>
  `let w = (${a}(o + ${at}u + (e & 3u) * 4u) >> ((e >> 2u) * 4u)) & ${NIBBLE};`;
// Super-blocks: half h, run j of 32 in it, quad l of the run.
const RUN = "let h = e >> 5u; let j = (e >> 3u) & 3u; let l = e & 7u;";

type Body = (a: string) => string;

// Scales are read through a_f16, which keeps subnormals: small weights have such scales.
const BODIES: { readonly [type: number]: Body } = {
  [Type.F32]: (a) =>
    `let o = row + q * 16u; return vec4f(${[0, 4, 8, 12].map((b) => `${a}_f32(o + ${b}u)`).join(", ")});`,
  [Type.Q4_0]: (a) => `${block(18, 8)} ${nibbles(`${a}_word`, 2)} return ${a}_f16(o) * (ubytes(w) - 8.0);`,
  [Type.Q4_1]: (a) =>
    `${block(20, 8)} ${nibbles(`${a}_u32`, 4)} return ${a}_f16(o) * ubytes(w) + ${a}_f16(o + 2u);`,
  [Type.Q5_0]: (a) => `${block(22, 8)} ${nibbles(`${a}_word`, 6)}
  return ${a}_f16(o) * (ubytes(w) + fifth(${a}_word(o + 2u) >> (e * 4u)) - 16.0);`,
  [Type.Q5_1]: (a) => `${block(24, 8)} ${nibbles(`${a}_u32`, 8)}
  return ${a}_f16(o) * (ubytes(w) + fifth(${a}_u32(o + 4u) >> (e * 4u))) + ${a}_f16(o + 2u);`,
  [Type.Q8_0]: (a) => `${block(34, 8)} return ${a}_f16(o) * sbytes(${a}_word(o + 2u + e * 4u));`,
  [Type.Q8_1]: (a) => `${block(36, 8)} return ${a}_f16(o) * sbytes(${a}_u32(o + 4u + e * 4u));`,
  [Type.Q8_K]: (a) => `${block(292, 64)} return ${a}_f32(o) * sbytes(${a}_u32(o + 4u + e * 4u));`,
  [Type.IQ4_NL]: (a) => `${block(18, 8)} ${nibbles(`${a}_word`, 2)} return ${a}_f16(o) * levels(${NL}, w);`,
  [Type.MXFP4]: (a) => `${block(17, 8)} ${nibbles(`${a}_word`, 1)}
  let x = ${a}_u8(o);
  return bitcast<f32>(select((x - 1u) << 23u, 0x200000u << x, x < 2u)) * levels(${FP4}, w);`,
  [Type.IQ4_XS]: (a) => `${block(136, 64)} let k = e >> 3u;
  let w = (${a}_u32(o + 8u + k * 16u + (e & 3u) * 4u) >> (e & 4u)) & ${NIBBLE};
  let low = (${a}_u8(o + 4u + (k >> 1u)) >> ((k & 1u) * 4u)) & 15u;
  let s = low | (((${a}_u16(o + 2u) >> (2u * k)) & 3u) << 4u);
  return ${a}_f16(o) * (f32(s) - 32.0) * levels(${NL}, w);`,
  [Type.Q2_K]: (a) => `${block(84, 64)} ${RUN}
  let w = (${a}_u32(o + 16u + h * 32u + l * 4u) >> (2u * j)) & 0x03030303u;
  let s = ${a}_u8(o + h * 8u + j * 2u + (l >> 2u));
  return ${a}_f16(o + 80u) * f32(s & 15u) * ubytes(w) - ${a}_f16(o + 82u) * f32(s >> 4u);`,
  [Type.Q3_K]: (a) => `${block(110, 64)} ${RUN}
  let low = (${a}_word(o + 32u + h * 32u + l * 4u) >> (2u * j)) & 0x03030303u;
  let high = (${a}_word(o + l * 4u) >> (4u * h + j)) & 0x01010101u;
  let k = h * 8u + j * 2u + (l >> 2u);
  let upper = (${a}_u8(o + 104u + (k & 3u)) >> (2u * (k >> 2u))) & 3u;
  let s = ((${a}_u8(o + 96u + (k & 7u)) >> ((k >> 3u) * 4u)) & 15u) | (upper << 4u);
  return ${a}_f16(o + 108u) * (f32(s) - 32.0) * (ubytes(low | (high << 2u)) - 4.0);`,
  [Type.Q4_K]: (a) => `${block(144, 64)} let s = e >> 3u; let l = e & 7u;
  let w = (${a}_u32(o + 16u + (s >> 1u) * 32u + l * 4u) >> ((s & 1u) * 4u)) & ${NIBBLE};
  let m = ${a}_six(o + 4u, s);
  return ${a}_f16(o) * m.x * ubytes(w) - ${a}_f16(o + 2u) * m.y;`,
  [Type.Q5_K]: (a) => `${block(176, 64)} let s = e >> 3u; let l = e & 7u;
  let w = (${a}_u32(o + 48u + (s >> 1u) * 32u + l * 4u) >> ((s & 1u) * 4u)) & ${NIBBLE};
  let high = (${a}_u32(o + 16u + l * 4u) >> s) & 0x01010101u;
  let m = ${a}_six(o + 4u, s);
  return ${a}_f16(o) * m.x * ubytes(w | (high << 4u)) - ${a}_f16(o + 2u) * m.y;`,
  [Type.Q6_K]: (a) => `${block(210, 64)} ${RUN}
  let low = (${a}_word(o + h * 64u + (j & 1u) * 32u + l * 4u) >> ((j >> 1u) * 4u)) & ${NIBBLE};
  let high = (${a}_word(o + 128u + h * 32u + l * 4u) >> (2u * j)) & 0x03030303u;
  let s = bitcast<i32>(${a}_u8(o + 192u + h * 8u + j * 2u + (l >> 2u)) << 24u) >> 24u;
  return ${a}_f16(o + 208u) * f32(s) * (ubytes(low | (high << 4u)) - 32.0);`,
};

/** Byte offsets of the F16 scales in a block. */
export const SCALES: { readonly [type: number]: readonly number[] } = {
  [Type.Q4_0]: [0],
  [Type.Q4_1]: [0, 2],
  [Type.Q5_0]: [0],
  [Type.Q5_1]: [0, 2],
  [Type.Q8_0]: [0],
  [Type.Q8_1]: [0, 2],
  [Type.Q2_K]: [80, 82],
  [Type.Q3_K]: [108],
  [Type.Q4_K]: [0, 2],
  [Type.Q5_K]: [0, 2],
  [Type.Q6_K]: [208],
  [Type.IQ4_NL]: [0],
  [Type.IQ4_XS]: [0],
};

/** True for block types that have {@link unitSource}. */
export function hasUnit(type: Type): boolean {
  return type === Type.MXFP4 || SCALES[type] !== undefined;
}

/**
 * `fn a_unit(row, q) -> u32`: the exponent, as F32 has it, of a power of two: that of the largest scale of q's block. The
 * block's elements are less than 2^13 times as large, so they fit into F16 in this unit, and what is lost below is nothing
 * beside the block's other elements.
 */
export function unitSource(a: string, type: Type): string {
  const { blockSize, typeSize } = typeInfo(type)!;
  const exponents = SCALES[type]?.map((at) => `((${a}_u16(o + ${at}u) >> 10u) & 31u)`);
  const largest = exponents?.reduce((x, y) => `max(${x}, ${y})`);
  return `
fn ${a}_unit(row: u32, q: u32) -> u32 {
  let o = row + q / ${blockSize / 4}u * ${typeSize}u;
  return ${largest === undefined ? `clamp(${a}_u8(o), 1u, 252u)` : `${largest} + 112u`};
}
`;
}

// Scale and minimum of run s: six bits each in 12 bytes (assembly/quants/six.ts).
const six = (a: string): string => `
fn ${a}_six(o: u32, s: u32) -> vec2f {
  let t = s & 3u;
  let x = ${a}_u8(o + t);
  let y = ${a}_u8(o + 4u + t);
  if (s < 4u) { return vec2f(f32(x & 63u), f32(y & 63u)); }
  let z = ${a}_u8(o + 8u + t);
  return vec2f(f32((z & 15u) | ((x >> 6u) << 4u)), f32((z >> 4u) | ((y >> 6u) << 4u)));
}`;

/** An operand and where it begins in its root. */
export type Placed = Operand & { readonly viewOffs?: number };

/** Types that {@link quadSource} reads. */
export const QUAD_TYPES: readonly Type[] = [Type.F16, Type.BF16, ...Object.keys(BODIES).map(Number)];

/** True when the tensor's data and all its strides are multiples of `n` bytes. */
export function isAligned(x: Placed, n: number): boolean {
  return (x.viewOffs ?? 0) % n === 0 && x.nb.every((b, i) => x.ne[i] === 1 || b % n === 0);
}

/** True when every row begins at a multiple of `n` bytes, whatever the distance of its elements. */
export function rowsAligned(x: Placed, n: number): boolean {
  return isAligned(
    { type: x.type, ne: x.ne, nb: [n, x.nb[1], x.nb[2], x.nb[3]], viewOffs: x.viewOffs ?? 0 },
    n,
  );
}

/** What addresses of a type must be multiples of for its readers: 1, 2 or 4 bytes. */
export function unitOf(type: Type): number {
  const { typeSize } = typeInfo(type)!;
  return typeSize % 4 === 0 ? 4 : typeSize % 2 === 0 ? 2 : 1;
}

/** True when the bytes lie as kernels read them. */
export function isReadable(x: Placed): boolean {
  return isAligned(x, unitOf(x.type));
}

/** Distance of the two quads that share a word of a type, in quads. */
export function quadStep(type: Type): number {
  switch (type) {
    case Type.Q4_0:
    case Type.Q4_1:
    case Type.Q5_0:
    case Type.Q5_1:
    case Type.IQ4_NL:
    case Type.IQ4_XS:
    case Type.MXFP4:
      return 4;
    case Type.Q2_K:
    case Type.Q3_K:
    case Type.Q4_K:
    case Type.Q5_K:
      return 8;
    case Type.Q6_K:
      return 16;
    default:
      return 1;
  }
}

/**
 * `fn a_quad(row, q)`. `aligned`: rows begin at multiples of 4 bytes, which 16-bit floats need not. Needs QUAD_LIB once.
 * An operand whose elements past the row's end are read gives any numbers there.
 */
export function quadSource(a: string, type: Type, aligned = false): string {
  const extra = type === Type.Q4_K || type === Type.Q5_K ? six(a) : "";
  return `${extra}
fn ${a}_quad(row: u32, q: u32) -> vec4f {
  ${type === Type.F16 || type === Type.BF16 ? pairs(a, type, aligned) : BODIES[type]!(a)}
}
`;
}

function pairs(a: string, type: Type, aligned: boolean): string {
  const word = aligned ? `${a}_u32` : `${a}_word`;
  const f = type === Type.F16 ? "halves" : "bhalves";
  return `let o = row + q * 8u; return vec4f(${f}(${word}(o)), ${f}(${word}(o + 4u)));`;
}
