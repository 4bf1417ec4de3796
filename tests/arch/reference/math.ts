// Double-precision building blocks, one token at a time, from their formulas.
import type { Rows } from "./file.ts";

export type Vec = Float64Array;

export const add = (a: Vec, b: Vec): Vec => a.map((x, i) => x + b[i]!);
export const mul = (a: Vec, b: Vec): Vec => a.map((x, i) => x * b[i]!);
export const scale = (a: Vec, s: number): Vec => a.map((x) => s * x);
export const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
};
export const matVec = (w: Rows, x: Vec): Vec => Float64Array.from(w, (row) => dot(row, x));

export function rms(x: Vec, w: Vec, eps: number): Vec {
  const s = 1 / Math.sqrt(dot(x, x) / x.length + eps);
  return x.map((v, i) => v * s * w[i]!);
}

export function layerNorm(x: Vec, w: Vec, b: Vec | undefined, eps: number): Vec {
  const mean = x.reduce((a, v) => a + v, 0) / x.length;
  const variance = x.reduce((a, v) => a + (v - mean) ** 2, 0) / x.length;
  return x.map((v, i) => ((v - mean) / Math.sqrt(variance + eps)) * w[i]! + (b?.[i] ?? 0));
}

export const silu = (x: number): number => x / (1 + Math.exp(-x));
export const gelu = (x: number): number =>
  0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * x * (1 + 0.044715 * x * x)));

export function softmax(z: Vec): Vec {
  const top = Math.max(...z);
  const e = z.map((x) => Math.exp(x - top));
  return scale(e, 1 / e.reduce((a, x) => a + x, 0));
}

/** Rotation of a layer, as section 2 of the architecture notes has it. */
export interface Turn {
  readonly base: number;
  readonly n: number;
  /** pairs: neighbours, or halves */
  readonly adjacent: boolean;
  readonly freqScale: number;
  readonly ext: number;
  readonly magnitude: number;
  readonly nCtxOrig: number;
  readonly factors: Vec | undefined;
}

/** Turns the first `n` elements of a head. */
export function rotate(head: Vec, position: number, t: Turn): Vec {
  const out = head.slice();
  const corner = (beta: number): number =>
    (t.n * Math.log(t.nCtxOrig / (2 * Math.PI * beta))) / (2 * Math.log(t.base));
  const low = Math.max(0, Math.floor(corner(32)));
  const high = Math.min(t.n - 1, Math.ceil(corner(1)));
  for (let i = 0; i < t.n / 2; i++) {
    const free = (position * t.base ** ((-2 * i) / t.n)) / (t.factors?.[i] ?? 1);
    const ramp = t.ext * (1 - Math.min(1, Math.max(0, (i - low) / Math.max(0.001, high - low))));
    const angle = t.freqScale * free * (1 - ramp) + free * ramp;
    const [a, b] = t.adjacent ? [2 * i, 2 * i + 1] : [i, i + t.n / 2];
    out[a] = t.magnitude * (head[a]! * Math.cos(angle) - head[b]! * Math.sin(angle));
    out[b] = t.magnitude * (head[a]! * Math.sin(angle) + head[b]! * Math.cos(angle));
  }
  return out;
}

/** How scores become weights. */
export interface Attend {
  readonly scale: number;
  readonly cap: number;
  /** ALiBi; 0 = none */
  readonly maxBias: number;
  readonly sinks: Vec | undefined;
  /** may the token at p see the one at q? */
  readonly sees: (p: number, q: number) => boolean;
}

function slope(maxBias: number, h: number, heads: number): number {
  const n = 2 ** Math.floor(Math.log2(heads));
  return h < n ? 2 ** ((-maxBias * (h + 1)) / n) : 2 ** (((-maxBias / 2) * (2 * (h - n) + 1)) / n);
}

/** Attention of heads q[token][head] over k and v: one vector of all heads for each token. */
export function attention(q: Vec[][], k: Vec[][], v: Vec[][], a: Attend): Vec[] {
  const heads = q[0]!.length;
  const group = heads / k[0]!.length;
  return q.map((own, p) => {
    const parts = own.map((head, h) => {
      const g = Math.floor(h / group);
      const z = Float64Array.from(k, (keys, i) => {
        if (!a.sees(p, i)) return -Infinity;
        let s = a.scale * dot(head, keys[g]!);
        if (a.cap !== 0) s = a.cap * Math.tanh(s / a.cap);
        return a.maxBias === 0 ? s : s - slope(a.maxBias, h, heads) * Math.abs(p - i);
      });
      const all = a.sinks === undefined ? z : Float64Array.from([...z, a.sinks[h]!]);
      const w = softmax(all);
      const out = new Float64Array(v[0]![g]!.length);
      v.forEach((values, i) => values[g]!.forEach((x, j) => (out[j]! += w[i]! * x)));
      return Array.from(out);
    });
    return Float64Array.from(parts.flat());
  });
}

/** A vector cut into heads of d elements. */
export const headsOf = (x: Vec, d: number): Vec[] =>
  Array.from({ length: x.length / d }, (_, i) => x.slice(i * d, (i + 1) * d));
