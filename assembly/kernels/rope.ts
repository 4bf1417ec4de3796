// ROPE: rotates pairs of elements of each head by angles that grow with the position of the token.
//
//   x [head size, heads, tokens, batch] F32 or F16; positions I32 [tokens], or [4 tokens] as planes t, h, w, e for the
//   multi-axis modes; optional frequency factors F32, one per pair
//
//   mode 0    pairs (2p, 2p + 1)
//   mode 2    pairs (p, p + n_dims/2)                                      NeoX
//   mode 8    as 2, a pair follows the axis of its section                 M-RoPE
//   mode 24   as 8, over the whole head, powers restart in each section    vision
//   mode 40   as 8, sections interleaved
//
// Angles are a running f32 product as in ggml: exact powers would differ by 1e-5 at position 100000. Each thread keeps
// one token's values in its scratch: cos[head size / 2] | sin[head size / 2] | theta of the four axes. dst may be x.

import { RopeMode, RopeParam, Type } from "../abi";
import { floatBytes, loadLanes, storeLanes } from "../math/lanes";
import { sinCosRow } from "../math/trig";
import { liveRows, Node, paramF, paramI, rowPtr, share } from "../node";

/** Parameters in the slots above. Heads of one token follow each other, so its angles are computed once. */
export function rope(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const rows = liveRows(n);
  const pc = n.scratchData + <usize>ith * (((<usize>n.ne0) << 2) + 16);
  const ratio = Mathf.pow(paramF(n, RopeParam.FREQ_BASE), <f32>-2 / <f32>paramI(n, RopeParam.N_DIMS));
  let token = -1;
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const i2 = (r / n.ne1) % n.ne2;
    if (i2 != token) {
      token = i2;
      angles(n, token, pc, ratio);
    }
    rotateRow(n, rowPtr(x, r), rowPtr(n, r), pc);
  }
}

// Pairs that are rotated.
function pairs(n: Node): i32 {
  return (paramI(n, RopeParam.MODE) == RopeMode.VISION ? n.ne0 : paramI(n, RopeParam.N_DIMS)) >> 1;
}

// Copies one head to its place and rotates it there.
function rotateRow(n: Node, px: usize, py: usize, pc: usize): void {
  const type = n.type;
  const size = floatBytes(type);
  const count = pairs(n);
  const adjacent = paramI(n, RopeParam.MODE) == 0;
  if (px != py) memory.copy(py, px, <usize>n.ne0 * size);
  // bytes from one pair to the next, and between the two of a pair
  const step: usize = adjacent ? size << 1 : size;
  const apart: usize = adjacent ? size : <usize>count * size;
  const ps = pc + ((<usize>n.ne0) << 1);
  px = py + <usize>paramI(n, RopeParam.OFFSET) * size;
  let p = 0;
  if (type == Type.F32) {
    p = count & ~3;
    if (adjacent) rotateAdjacent(px, pc, ps, p);
    else rotateApart(px, apart, pc, ps, p);
    px += <usize>p * step;
  }
  for (; p < count; p += 4) {
    const k = min(count - p, 4);
    const c = loadLanes(Type.F32, pc + ((<usize>p) << 2), 4, k);
    const s = loadLanes(Type.F32, ps + ((<usize>p) << 2), 4, k);
    const a = loadLanes(type, px, step, k);
    const b = loadLanes(type, px + apart, step, k);
    storeLanes(type, px, step, k, turnA(a, b, c, s));
    storeLanes(type, px + apart, step, k, turnB(a, b, c, s));
    px += <usize>k * step;
  }
}


@inline
function turnA(a: v128, b: v128, c: v128, s: v128): v128 {
  return f32x4.sub(f32x4.mul(a, c), f32x4.mul(b, s));
}


@inline
function turnB(a: v128, b: v128, c: v128, s: v128): v128 {
  return f32x4.add(f32x4.mul(a, s), f32x4.mul(b, c));
}

// `count` pairs of f32 whose halves lie `apart` bytes apart; a multiple of 4.
function rotateApart(px: usize, apart: usize, pc: usize, ps: usize, count: i32): void {
  for (; count > 0; count -= 4, px += 16, pc += 16, ps += 16) {
    const a = v128.load(px);
    const b = v128.load(px + apart);
    const c = v128.load(pc);
    const s = v128.load(ps);
    v128.store(px, turnA(a, b, c, s));
    v128.store(px + apart, turnB(a, b, c, s));
  }
}

// `count` pairs of neighbouring f32; a multiple of 4.
function rotateAdjacent(px: usize, pc: usize, ps: usize, count: i32): void {
  for (; count > 0; count -= 4, px += 32, pc += 16, ps += 16) {
    const u = v128.load(px);
    const v = v128.load(px, 16);
    const a = i8x16.shuffle(u, v, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    const b = i8x16.shuffle(u, v, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    const c = v128.load(pc);
    const s = v128.load(ps);
    const x = turnA(a, b, c, s);
    const y = turnB(a, b, c, s);
    v128.store(px, i8x16.shuffle(x, y, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
    v128.store(px, i8x16.shuffle(x, y, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31), 16);
  }
}

// Cosine and sine of every pair for one token. Angles shrink by `ratio` from pair to pair.
function angles(n: Node, token: i32, pc: usize, ratio: f32): void {
  const mode = paramI(n, RopeParam.MODE);
  const multi = (mode & RopeMode.MULTI_AXIS) != 0;
  const ps = pc + ((<usize>n.ne0) << 1);
  const pt = ps + ((<usize>n.ne0) << 1);
  const factors = n.src2;
  const shrink = f32x4.splat(ratio);
  const count = pairs(n);
  let magnitude = paramF(n, RopeParam.ATTN_FACTOR);
  let low: f32 = 0;
  let high: f32 = 0;
  if (paramF(n, RopeParam.EXT_FACTOR) != 0) {
    low = max<f32>(0, floor<f32>(correction(n, paramF(n, RopeParam.BETA_FAST))));
    high = min<f32>(
      <f32>(paramI(n, RopeParam.N_DIMS) - 1),
      ceil<f32>(correction(n, paramF(n, RopeParam.BETA_SLOW))),
    );
    magnitude *= 1 + <f32>0.1 * Mathf.log(1 / paramF(n, RopeParam.FREQ_SCALE));
  }
  for (let k = 0, planes = multi ? 4 : 1; k < planes; k++)
    store<f32>(pt + ((<usize>k) << 2), position(n, token, k));
  let first = load<f32>(pt);
  for (let p = 0; p < count; p++) {
    const axis = multi ? axisOf(n, mode, p) : 0;
    if (mode == RopeMode.VISION && startsSection(n, p))
      store<f32>(pt + ((<usize>axis) << 2), position(n, token, axis));
    let theta = multi ? load<f32>(pt + ((<usize>axis) << 2)) : first;
    if (factors != null) theta /= load<f32>(factors.data + <usize>p * factors.nb0);
    store<f32>(pc + ((<usize>p) << 2), angleOf(n, theta, p, low, high));
    if (multi) v128.store(pt, f32x4.mul(v128.load(pt), shrink));
    else first *= ratio;
  }
  sinCosRow(pc, ps, count, magnitude);
}

// Position of a token on one axis.
function position(n: Node, token: i32, plane: i32): f32 {
  const pos = n.src1!;
  return <f32>load<i32>(pos.data + <usize>(plane * n.ne2 + token) * pos.nb0);
}

// The pair index at which a wave length makes `beta` turns over the original context.
function correction(n: Node, beta: f32): f32 {
  const turns = <f32>paramI(n, RopeParam.CTX_ORIG) / (beta * 2 * <f32>Math.PI);
  return (
    (<f32>paramI(n, RopeParam.N_DIMS) * Mathf.log(turns)) / (2 * Mathf.log(paramF(n, RopeParam.FREQ_BASE)))
  );
}

// The angle of pair p, scaled: YaRN between `low` and `high`.
function angleOf(n: Node, theta: f32, p: i32, low: f32, high: f32): f32 {
  const ext = paramF(n, RopeParam.EXT_FACTOR);
  const angle = paramF(n, RopeParam.FREQ_SCALE) * theta;
  if (ext == 0) return angle;
  const along = (<f32>p - low) / max<f32>(0.001, high - low);
  const mix = (<f32>1 - min<f32>(1, max<f32>(0, along))) * ext;
  return angle * (<f32>1 - mix) + theta * mix;
}

// Pair p counted inside one round of all four sections.
function sector(n: Node, p: i32): i32 {
  const total =
    paramI(n, RopeParam.SECTIONS) +
    paramI(n, RopeParam.SECTIONS + 1) +
    paramI(n, RopeParam.SECTIONS + 2) +
    paramI(n, RopeParam.SECTIONS + 3);
  return p % total;
}

// Axis of a pair: 0 t, 1 h, 2 w, 3 e.
function axisOf(n: Node, mode: i32, p: i32): i32 {
  const k = sector(n, p);
  const s0 = paramI(n, RopeParam.SECTIONS);
  const s1 = paramI(n, RopeParam.SECTIONS + 1);
  const s2 = paramI(n, RopeParam.SECTIONS + 2);
  if (mode == RopeMode.INTERLEAVED) {
    const phase = k % 3;
    return k < 3 * paramI(n, RopeParam.SECTIONS + phase) ? phase : 3;
  }
  return k < s0 ? 0 : k < s0 + s1 ? 1 : k < s0 + s1 + s2 ? 2 : 3;
}

// True where the powers of vision mode start anew.
function startsSection(n: Node, p: i32): bool {
  let k = sector(n, p);
  for (let i = 0; i < 4 && k > 0; i++) k -= paramI(n, RopeParam.SECTIONS + i);
  return k == 0;
}
