// Searches for the scale of a group of values, the codes with it: least squares over a few candidates, as ggml does it.
//
// All sums are f32, in the order of the values, products from the left: the bytes depend on it. Codes go to pl, a byte
// each. Nothing here allocates: what a quantizer holds on the way lies in its caller's scratch.
//
//   scratch of a quantizer, SEARCH_BYTES:
//   0 codes u8[256] | 256 other codes u8[32] | 288 weights f32[32] | 416 scales f32[16] | 480 minima f32[16]
//   544 sums of weights f32[16] | 608 block scales u8[16] | 624 block minima u8[16]

/** Scratch bytes of the quantizers that search; ts/ops/copy.ts counts with the same number. */
export const SEARCH_BYTES: usize = 640;

/** Offsets in the scratch. */
export const OTHER: usize = 256;
export const WEIGHTS: usize = 288;
export const SCALES: usize = 416;
export const MINIMA: usize = 480;
export const SUMS: usize = 544;
export const BLOCK_SCALES: usize = 608;
export const BLOCK_MINIMA: usize = 624;

/** A magnitude below this is zero. */
const TINY: f32 = 1e-15;

/** The i-th f32 at p. */
@inline
export function at(p: usize, i: i32): f32 {
  return load<f32>(p + ((<usize>i) << 2));
}

/** The i-th byte at p. */
@inline
export function codeAt(p: usize, i: i32): i32 {
  return load<u8>(p + i);
}

/** The whole number next to x, half to even, in [lo, hi]. */
@inline
export function rounded(x: f32, lo: i32, hi: i32): i32 {
  return max(lo, min(hi, <i32>nearest(x)));
}

/** The element of the largest magnitude, with its sign; the first of equals. */
export function farthest(px: usize, n: i32): f32 {
  let x: f32 = 0;
  for (let i = 0; i < n; i++) if (abs(at(px, i)) > abs(x)) x = at(px, i);
  return x;
}

/** Sum of squares. */
export function squares(px: usize, n: i32): f32 {
  let sum: f32 = 0;
  for (let i = 0; i < n; i++) sum += at(px, i) * at(px, i);
  return sum;
}

/** Is there a value that is not finite? */
export function hasBad(px: usize, n: i32): bool {
  let bad: f32 = 0;
  for (let i = 0; i < n; i++) bad += at(px, i) * 0;
  return bad != bad;
}

/**
 * Scale of n values as codes -N .. N - 1, stored with N added: a base and 18 candidates around it. All codes are 0, the
 * scale too, when there is nothing but zeros.
 *
 * @param pw weights of the squared errors
 */
export function searchSymmetric(N: i32, px: usize, pw: usize, n: i32, pl: usize): f32 {
  const top = farthest(px, n);
  if (abs(top) < TINY) {
    memory.fill(pl, 0, n);
    return 0;
  }
  let inverse: f32 = 0;
  let scale: f32 = 0;
  let best: f32 = 0;
  for (let j = 0; j < 19; j++) {
    const k = j == 0 ? 0 : j < 10 ? j - 10 : j - 9; // the base first
    const s = -(<f32>N + <f32>0.1 * <f32>k) / top;
    let a: f32 = 0;
    let b: f32 = 0;
    for (let i = 0; i < n; i++) {
      const x = at(px, i);
      const w = at(pw, i);
      const l = <f32>rounded(s * x, -N, N - 1);
      a += w * x * l;
      b += w * l * l;
    }
    if (j > 0 && !(b > 0 && a * a > best * b)) continue;
    scale = b != 0 ? a / b : 0;
    best = scale * a;
    inverse = s;
  }
  for (let i = 0; i < n; i++) store<u8>(pl + i, <u8>(rounded(inverse * at(px, i), -N, N - 1) + N));
  return scale;
}

/** The same codes by descent from the base, one code at a time, with the squares of the values as weights. */
export function descendSymmetric(N: i32, px: usize, n: i32, pl: usize): f32 {
  const top = farthest(px, n);
  if (abs(top) < TINY) {
    memory.fill(pl, 0, n);
    return 0;
  }
  const inverse: f32 = <f32>-N / top;
  let a: f32 = 0;
  let b: f32 = 0;
  for (let i = 0; i < n; i++) {
    const x = at(px, i);
    const l = rounded(inverse * x, -N, N - 1);
    store<u8>(pl + i, <u8>(l + N));
    a += x * x * x * <f32>l;
    b += x * x * <f32>l * <f32>l;
  }
  for (let sweep = 0, changed = true; sweep < 5 && changed; sweep++) {
    changed = false;
    for (let i = 0; i < n; i++) {
      const x = at(px, i);
      const w = x * x;
      const l = codeAt(pl, i) - N;
      let a1 = a - w * x * <f32>l;
      if (!(a1 > 0)) continue;
      let b1 = b - w * <f32>l * <f32>l;
      const l1 = rounded((x * b1) / a1, -N, N - 1);
      if (l1 == l) continue;
      a1 += w * x * <f32>l1;
      b1 += w * <f32>l1 * <f32>l1;
      if (!(b1 > 0 && a1 * a1 * b > a * a * b1)) continue;
      store<u8>(pl + i, <u8>(l1 + N));
      a = a1;
      b = b1;
      changed = true;
    }
  }
  return b > 0 ? a / b : 0;
}

/**
 * Scale of n values as codes 0 .. N over a minimum, x = scale l - m with m >= 0, which goes to pm. Candidates are
 * N + from + step k for the code of the range, k = 0 .. count; the minimum found is that of the next candidate.
 *
 * @param po n bytes for the codes of a candidate
 * @param absolute errors count by their magnitude, not their square
 */
export function searchRange(
  N: i32,
  px: usize,
  pw: usize,
  n: i32,
  pl: usize,
  po: usize,
  pm: usize,
  from: f32,
  step: f32,
  count: i32,
  absolute: bool,
): f32 {
  let lo = at(px, 0);
  let hi = lo;
  let w: f32 = 0;
  let wx: f32 = 0;
  for (let i = 0; i < n; i++) {
    lo = min(lo, at(px, i));
    hi = max(hi, at(px, i));
    w += at(pw, i);
    wx += at(pw, i) * at(px, i);
  }
  if (lo > 0) lo = 0;
  if (hi <= lo) {
    memory.fill(pl, 0, n);
    store<f32>(pm, -lo);
    return 0;
  }
  let inverse = <f32>N / (hi - lo);
  let scale: f32 = 1 / inverse;
  rangeCodes(N, inverse, lo, px, n, pl);
  let least = rangeError(scale, lo, px, pw, n, pl, absolute);
  for (let k = 0; k <= count; k++) {
    inverse = (from + step * <f32>k + <f32>N) / (hi - lo);
    rangeCodes(N, inverse, lo, px, n, po);
    let a: f32 = 0;
    let b: f32 = 0;
    let c: f32 = 0;
    for (let i = 0; i < n; i++) {
      const l = <f32>codeAt(po, i);
      const wl = at(pw, i) * l;
      a += wl;
      b += wl * l;
      c += wl * at(px, i);
    }
    const d = w * b - a * a;
    if (!(d > 0)) continue;
    let s = (w * c - wx * a) / d;
    let m = (b * wx - a * c) / d;
    if (m > 0) {
      m = 0;
      s = c / b;
    }
    const error = rangeError(s, m, px, pw, n, po, absolute);
    if (!(error < least)) continue;
    memory.copy(pl, po, n);
    least = error;
    scale = s;
    lo = m;
  }
  store<f32>(pm, -lo);
  return scale;
}

function rangeCodes(N: i32, inverse: f32, lo: f32, px: usize, n: i32, pl: usize): void {
  for (let i = 0; i < n; i++) store<u8>(pl + i, <u8>rounded(inverse * (at(px, i) - lo), 0, N));
}

function rangeError(scale: f32, lo: f32, px: usize, pw: usize, n: i32, pl: usize, absolute: bool): f32 {
  let sum: f32 = 0;
  for (let i = 0; i < n; i++) {
    const e = scale * <f32>codeAt(pl, i) + lo - at(px, i);
    sum += at(pw, i) * (absolute ? abs(e) : e * e);
  }
  return sum;
}

/** Scale of n values that are not negative as codes 0 .. N: nine candidates, then descent as above. */
export function searchPositive(N: i32, px: usize, pw: usize, n: i32, pl: usize): f32 {
  let top: f32 = 0;
  for (let i = 0; i < n; i++) top = max(top, at(px, i));
  if (top < TINY) {
    memory.fill(pl, 0, n);
    return 0;
  }
  let inverse = <f32>N / top;
  let least = positiveError(i32.MAX_VALUE, inverse, px, pw, n);
  for (let k = -4; k <= 4; k++) {
    if (k == 0) continue;
    const s = (<f32>0.1 * <f32>k + <f32>N) / top;
    const error = positiveError(N, s, px, pw, n);
    if (error < least) {
      least = error;
      inverse = s;
    }
  }
  let a: f32 = 0;
  let b: f32 = 0;
  for (let i = 0; i < n; i++) {
    const l = rounded(inverse * at(px, i), 0, N);
    store<u8>(pl + i, <u8>l);
    a += at(pw, i) * at(px, i) * <f32>l;
    b += at(pw, i) * <f32>l * <f32>l;
  }
  return descendPositive(N, px, pw, n, pl, a, b);
}

function positiveError(N: i32, inverse: f32, px: usize, pw: usize, n: i32): f32 {
  const scale: f32 = 1 / inverse;
  let sum: f32 = 0;
  for (let i = 0; i < n; i++) {
    const e = at(px, i) - scale * <f32>rounded(inverse * at(px, i), 0, N);
    sum += at(pw, i) * e * e;
  }
  return sum;
}

function descendPositive(N: i32, px: usize, pw: usize, n: i32, pl: usize, a: f32, b: f32): f32 {
  for (let sweep = 0, changed = true; sweep < 5 && changed; sweep++) {
    changed = false;
    for (let i = 0; i < n; i++) {
      const x = at(px, i);
      const w = at(pw, i);
      const l = codeAt(pl, i);
      let a1 = a - w * x * <f32>l;
      let b1 = b - w * <f32>l * <f32>l;
      if (!(a1 > 0 && b1 > 0)) continue;
      const l1 = rounded((x * b1) / a1, 0, N);
      if (l1 == l) continue;
      a1 += w * x * <f32>l1;
      b1 += w * <f32>l1 * <f32>l1;
      if (!(a1 * a1 * b > a * a * b1)) continue;
      store<u8>(pl + i, <u8>l1);
      a = a1;
      b = b1;
      changed = true;
    }
  }
  return b > 0 ? a / b : 0;
}
