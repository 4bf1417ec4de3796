// FLASH_ATTN_EXT: configurations, and attention in double precision.

import { Type } from "../../ts/types.ts";

/** Shapes, types and options of one attention. */
export interface Attention {
  readonly title: string;
  /** elements of a head of q and k, and of v */
  readonly d: number;
  readonly dv: number;
  readonly tokens: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly cells: number;
  readonly type: Type;
  /** position of the first token: causal, with `tokens + p0` live cells */
  readonly p0?: number;
  /** several texts of these lengths in one batch, each seeing itself only; tokens and cells are their sum */
  readonly texts?: readonly number[];
  /** a token of a text sees what is before it only */
  readonly causal?: true;
  readonly window?: number;
  /** the window looks both ways */
  readonly twoSided?: true;
  readonly mask?: true;
  readonly sinks?: true;
  readonly maxBias?: number;
  readonly softcap?: number;
  /** factor of q and k */
  readonly size?: number;
}

const BASE = { d: 64, dv: 64, tokens: 5, heads: 4, kvHeads: 2, cells: 70, type: Type.F16 };

export const ATTENTIONS: readonly Attention[] = [
  { ...BASE, title: "F16, everything visible" },
  { ...BASE, title: "F32, three elements a head", d: 3, dv: 5, kvHeads: 1, cells: 7, type: Type.F32 },
  {
    ...BASE,
    title: "causal, odd heads",
    d: 31,
    dv: 33,
    tokens: 17,
    heads: 6,
    kvHeads: 3,
    cells: 100,
    p0: 60,
  },
  { ...BASE, title: "causal batch", tokens: 33, heads: 9, kvHeads: 3, cells: 200, p0: 100 },
  { ...BASE, title: "sliding window", tokens: 33, cells: 200, p0: 0, window: 20, type: Type.F32 },
  {
    ...BASE,
    title: "narrow window, F32",
    tokens: 70,
    heads: 2,
    cells: 200,
    p0: 40,
    window: 5,
    type: Type.F32,
  },
  { ...BASE, title: "narrow window, F16", tokens: 70, heads: 6, cells: 300, p0: 90, window: 3 },
  { ...BASE, title: "narrow window, Q8_0", tokens: 70, cells: 200, p0: 0, window: 9, type: Type.Q8_0 },
  { ...BASE, title: "Q8_0", d: 32, tokens: 20, cells: 96, p0: 10, type: Type.Q8_0 },
  {
    ...BASE,
    title: "Q4_0, window",
    dv: 32,
    tokens: 20,
    kvHeads: 1,
    cells: 96,
    p0: 33,
    window: 7,
    type: Type.Q4_0,
  },
  {
    ...BASE,
    title: "BF16, mask, sinks",
    d: 128,
    dv: 128,
    tokens: 7,
    heads: 8,
    mask: true,
    sinks: true,
    type: Type.BF16,
  },
  {
    ...BASE,
    title: "ALiBi",
    d: 16,
    dv: 16,
    tokens: 40,
    heads: 12,
    kvHeads: 12,
    mask: true,
    maxBias: 8,
    type: Type.F32,
  },
  { ...BASE, title: "soft cap", d: 80, dv: 80, tokens: 9, heads: 5, kvHeads: 5, mask: true, softcap: 3 },
  {
    ...BASE,
    title: "causal ALiBi without a mask",
    tokens: 19,
    heads: 6,
    kvHeads: 6,
    cells: 90,
    p0: 40,
    maxBias: 8,
  },
  { ...BASE, title: "many heads, one token", tokens: 1, heads: 71, kvHeads: 1, cells: 300, p0: 250 },
  {
    ...BASE,
    title: "scores beyond f16",
    tokens: 2,
    heads: 2,
    kvHeads: 1,
    cells: 32,
    p0: 5,
    sinks: true,
    size: 4000,
  },
];

const TEXTS = { ...BASE, texts: [5, 1, 33, 40, 7], tokens: 86, cells: 86, type: Type.F32 };

/** Several texts in one batch, without a cache. */
export const BATCHES: readonly Attention[] = [
  { ...TEXTS, title: "texts" },
  { ...TEXTS, title: "causal texts, heads of 9", d: 9, dv: 11, causal: true },
  { ...TEXTS, title: "causal texts, window of 7", causal: true, window: 7, heads: 5, kvHeads: 1 },
  { ...TEXTS, title: "texts, window of 8 both ways", window: 8, twoSided: true },
  { ...TEXTS, title: "texts, window of 1 both ways", window: 1, twoSided: true },
  {
    ...TEXTS,
    title: "a long text, window of 5 both ways",
    texts: [43, 3, 40],
    heads: 2,
    window: 5,
    twoSided: true,
  },
  { ...TEXTS, title: "texts, window of 65 both ways", window: 65, twoSided: true, type: Type.F16 },
  { ...TEXTS, title: "texts, ALiBi without a mask", maxBias: 8, heads: 12, kvHeads: 12, d: 16, dv: 16 },
];

/** Values in order: q [d, tokens, heads], k [d, cells, kvHeads], v [dv, cells, kvHeads], mask [cells, tokens]. */
export interface AttentionData {
  readonly q: ArrayLike<number>;
  readonly k: ArrayLike<number>;
  readonly v: ArrayLike<number>;
  readonly mask?: ArrayLike<number> | undefined;
  readonly sinks?: ArrayLike<number> | undefined;
  readonly scale: number;
}

function slope(maxBias: number, h: number, heads: number): number {
  if (maxBias === 0) return 1;
  const n = 2 ** Math.floor(Math.log2(heads));
  return h < n ? 2 ** ((-maxBias / n) * (h + 1)) : 2 ** ((-maxBias / (2 * n)) * (2 * (h - n) + 1));
}

/** For each token {first cell, end} of what it may see, before any window. */
export function spansOf(a: Attention): (readonly [first: number, end: number])[] {
  let first = 0;
  return a.texts!.flatMap((n) => {
    const start = first;
    first += n;
    const end = (i: number): number => (a.causal ? start + i + 1 : start + n);
    return Array.from({ length: n }, (_, i) => [start, end(i)] as const);
  });
}

type Spans = ReturnType<typeof spansOf>;

function visible(a: Attention, spans: Spans | undefined, t: number, j: number): boolean {
  if (spans !== undefined) {
    const [first, end] = spans[t]!;
    return j >= first && j < end && inWindow(a, t, j);
  }
  if (a.p0 === undefined) return true;
  const pos = a.p0 + t;
  return j <= pos && inWindow(a, pos, j);
}

function inWindow({ window, twoSided }: Attention, own: number, j: number): boolean {
  if (window === undefined) return true;
  return twoSided ? Math.abs(own - j) <= Math.floor(window / 2) : j > own - window;
}

// Scores of one token of one head; hidden cells are -Infinity.
function scores(a: Attention, x: AttentionData, spans: Spans | undefined, t: number, h: number): number[] {
  const kv = Math.floor(h / (a.heads / a.kvHeads));
  return Array.from({ length: a.cells }, (_, j) => {
    const distance = a.mask ? 0 : -Math.abs((a.p0 ?? 0) + t - j);
    const mask = x.mask?.[t * a.cells + j] ?? (a.maxBias === undefined ? 0 : distance);
    if (!visible(a, spans, t, j) || mask === -Infinity) return -Infinity;
    let z = 0;
    for (let i = 0; i < a.d; i++)
      z += x.q[(h * a.tokens + t) * a.d + i]! * x.k[(kv * a.cells + j) * a.d + i]!;
    z *= x.scale;
    if (a.softcap !== undefined) z = a.softcap * Math.tanh(z / a.softcap);
    return z + slope(a.maxBias ?? 0, h, a.heads) * mask;
  });
}

/** The result [dv, heads, tokens] in order. */
export function attend(a: Attention, x: AttentionData): Float64Array {
  const y = new Float64Array(a.dv * a.heads * a.tokens);
  const spans = a.texts && spansOf(a);
  for (let t = 0; t < a.tokens; t++) {
    for (let h = 0; h < a.heads; h++) {
      const z = scores(a, x, spans, t, h);
      const sink = x.sinks?.[h] ?? -Infinity;
      const top = Math.max(sink, ...z);
      if (top === -Infinity) continue;
      const w = z.map((s) => Math.exp(s - top));
      const sum = w.reduce((s, v) => s + v, Math.exp(sink - top));
      const kv = Math.floor(h / (a.heads / a.kvHeads));
      const at = (t * a.heads + h) * a.dv;
      for (let j = 0; j < a.cells; j++) {
        if (w[j] === 0) continue;
        for (let i = 0; i < a.dv; i++) y[at + i]! += (w[j]! / sum) * x.v[(kv * a.cells + j) * a.dv + i]!;
      }
    }
  }
  return y;
}
