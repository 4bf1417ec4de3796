// Seeded generators of lifetime lists for the planner's tests and benchmark.
import type { Lifetime, LifetimeColumns } from "../ts/runtime/plan_check.ts";

/** Columns that can be written to. */
export interface Columns extends LifetimeColumns {
  lower: Int32Array;
  upper: Int32Array;
  size: Float64Array;
}

export function columns(n: number): Columns {
  return { lower: new Int32Array(n), upper: new Int32Array(n), size: new Float64Array(n) };
}

/** xorshift32 in [0, 1). */
export function random(seed: number): () => number {
  let s = Math.imul(seed, 2654435761) >>> 0 || 1;
  return () => {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    s >>>= 0;
    return s / 2 ** 32;
  };
}

/** Births in order, lifetimes with a heavy tail, sizes in multiples of `unit` with a heavy tail. */
export function pareto(n: number, seed: number, unit: number): Columns {
  const r = random(seed);
  const c = columns(n);
  for (let i = 0; i < n; i++) {
    c.lower[i] = i;
    c.upper[i] = i + 1 + Math.min(n, Math.floor(2 * r() ** -0.9));
    c.size[i] = Math.ceil(16 * (r() + 1e-4) ** -0.8) * unit - (unit === 1 ? i % 2 : 0) + (unit === 1 ? 1 : 0);
  }
  return c;
}

/** A training step: activations saved on the way forward are dropped in reverse on the way back, temporaries between. */
export function training(n: number, seed: number): Columns {
  const r = random(seed);
  const c = columns(n);
  const sizes = Array.from({ length: 200 }, () => 64 * Math.ceil(r() ** 3 * 4096 + 1));
  for (let i = 0; i < n; i++) {
    const saved = i < n / 2 && r() < 0.08;
    c.lower[i] = i;
    c.upper[i] = saved ? Math.min(n + 1, n - i + Math.floor(r() * 16)) : i + 1 + Math.floor(2 * r() ** -0.7);
    if (c.upper[i]! <= i) c.upper[i] = i + 1;
    c.size[i] = sizes[Math.floor(r() * sizes.length)]!;
  }
  return c;
}

/** A rectangle cut into `n` pieces by straight cuts: a plan without a gap exists, its peak is `height`. */
export function packing(n: number, seed: number, time: number, height: number): Columns {
  const r = random(seed);
  const pieces: [number, number, number, number][] = [[0, time, 0, height]]; // lower, upper, from, to
  while (pieces.length < n) {
    const k = largestOf(pieces, r);
    const [l, u, a, b] = pieces[k]!;
    const vertical = (u - l) / time > (b - a) / height ? u - l > 1 : b - a <= 1;
    if (vertical) {
      const at = l + 1 + Math.floor((u - l - 1) * (0.2 + 0.6 * r()));
      pieces[k] = [l, at, a, b];
      pieces.push([at, u, a, b]);
    } else {
      const at = a + 1 + Math.floor((b - a - 1) * (0.2 + 0.6 * r()));
      pieces[k] = [l, u, a, at];
      pieces.push([l, u, at, b]);
    }
  }
  return shuffled(pieces, r);
}

// The largest of a few picked at random.
function largestOf(pieces: [number, number, number, number][], r: () => number): number {
  let best = -1;
  let area = -1;
  for (let t = 0; t < 8 || area <= 1; t++) {
    const k = Math.floor(r() * pieces.length);
    const [l, u, a, b] = pieces[k]!;
    if ((u - l) * (b - a) > area) [best, area] = [k, (u - l) * (b - a)];
  }
  return best;
}

function shuffled(pieces: [number, number, number, number][], r: () => number): Columns {
  for (let i = pieces.length - 1; i > 0; i--) {
    const j = Math.floor(r() * (i + 1));
    [pieces[i], pieces[j]] = [pieces[j]!, pieces[i]!];
  }
  const c = columns(pieces.length);
  pieces.forEach(([l, u, a, b], i) => {
    c.lower[i] = l;
    c.upper[i] = u;
    c.size[i] = b - a;
  });
  return c;
}

/** The columns of a list. */
export function toColumns(list: readonly Lifetime[]): LifetimeColumns {
  return { lower: list.map((b) => b.lower), upper: list.map((b) => b.upper), size: list.map((b) => b.size) };
}

/** Lists the entries of columns, optionally mirrored in time. */
export function entriesOf(
  c: LifetimeColumns,
  mirrored = false,
): { lower: number; upper: number; size: number }[] {
  const n = c.size.length;
  let end = 0;
  for (let i = 0; i < n; i++) end = Math.max(end, c.upper[i]!);
  return Array.from({ length: n }, (_, i) => {
    const [l, u] = [c.lower[i]!, c.upper[i]!];
    return { lower: mirrored ? end - u : l, upper: mirrored ? end - l : u, size: c.size[i]! };
  });
}

/**
 * First overlap of a placed list, or "". A sweep over births and deaths with a sorted list of what lies in memory; for
 * long lists, where looking at every pair would not end.
 */
export function sweepFault(c: LifetimeColumns, offsets: ArrayLike<number>, peak: number): string {
  const n = c.size.length;
  const live = Array.from({ length: n }, (_, i) => i).filter(
    (i) => c.size[i]! > 0 && c.upper[i]! > c.lower[i]!,
  );
  const births = [...live].sort((a, b) => c.lower[a]! - c.lower[b]!);
  const deaths = [...live].sort((a, b) => c.upper[a]! - c.upper[b]!);
  const memory = new Buckets();
  let j = 0;
  let top = 0;
  for (const i of births) {
    for (; c.upper[deaths[j]!]! <= c.lower[i]!; j++) memory.remove(offsets[deaths[j]!]!);
    const end = offsets[i]! + c.size[i]!;
    if (!(offsets[i]! >= 0)) return `${i}: offset ${offsets[i]!}`;
    if (!memory.insert(offsets[i]!, end)) return `${i} overlaps something at ${offsets[i]!}`;
    top = Math.max(top, end);
  }
  return top === peak ? "" : `peak is ${top}, not ${peak}`;
}

// Disjoint intervals sorted by start, in chunks so that inserting is cheap.
class Buckets {
  private readonly chunks: [number, number][][] = [[]];

  private find(start: number): number {
    let l = 0;
    for (let r = this.chunks.length - 1; l < r;) {
      const k = (l + r + 1) >> 1;
      if (this.chunks[k]![0]![0] <= start) l = k;
      else r = k - 1;
    }
    return l;
  }

  insert(start: number, end: number): boolean {
    const k = this.find(start);
    const chunk = this.chunks[k]!;
    let i = chunk.findIndex((x) => x[0] > start);
    if (i < 0) i = chunk.length;
    const before = chunk[i - 1];
    const after = chunk[i] ?? this.chunks[k + 1]?.[0];
    if ((before && before[1] > start) || (after && after[0] < end)) return false;
    chunk.splice(i, 0, [start, end]);
    if (chunk.length > 512) this.chunks.splice(k + 1, 0, chunk.splice(256));
    return true;
  }

  remove(start: number): void {
    const k = this.find(start);
    const chunk = this.chunks[k]!;
    chunk.splice(
      chunk.findIndex((x) => x[0] === start),
      1,
    );
    if (chunk.length === 0 && this.chunks.length > 1) this.chunks.splice(k, 1);
  }
}
