// Grows random graphs with the public builder, for graph_fuzz.test.ts.
import { Glu, Unary } from "../assembly/abi.ts";
import { GraphError } from "../ts/errors.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { nelements } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";

/** Numbers in [0, 1), the same ones for the same seed. */
export type Random = () => number;

/** mulberry32 */
export function random(seed: number): Random {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Writes numbers to an input: floats in [-2, 2), integers that are ids of three rows. */
export function fill(t: Tensor, rng: Random): void {
  const n = nelements(t.ne);
  if (t.type === Type.I32) t.write(Int32Array.from({ length: n }, () => Math.floor(rng() * 3)));
  else t.write(Float32Array.from({ length: n }, () => 4 * rng() - 2));
}

/** What was grown, in the order of making. */
export interface Grown {
  readonly inputs: readonly Tensor[];
  readonly nodes: readonly Tensor[];
}

/** A graph under growth. */
class Soil {
  readonly g: Graph;
  readonly rng: Random;
  readonly inputs: Tensor[] = [];
  readonly nodes: Tensor[] = [];

  constructor(g: Graph, rng: Random) {
    this.g = g;
    this.rng = rng;
  }

  int(n: number): number {
    return Math.floor(this.rng() * n);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.int(list.length)]!;
  }

  shape(): number[] {
    return [0, 1, 2, 3].slice(this.int(3)).map((i) => this.pick(i === 0 ? [1, 3, 31, 32, 33, 64] : COUNTS));
  }

  /** Some tensor, of one of these types when there is one; late ones more often. */
  any(types: readonly Type[] = []): Tensor {
    const all = [...this.inputs, ...this.nodes].filter((t) => types.length === 0 || types.includes(t.type));
    return all[Math.floor(all.length * Math.sqrt(this.rng()))] ?? this.input(types[0] ?? Type.F32);
  }

  f32(): Tensor {
    return this.any([Type.F32]);
  }

  /** A leaf that is written before each run and that its last reader may overwrite. */
  input(type: Type = Type.F32, ne: readonly number[] = this.shape()): Tensor {
    const t = this.g.leaf(`in ${this.inputs.length}`, type, ne).asInput();
    this.inputs.push(t);
    return t;
  }

  /** A tensor of this shape: a known one, or a new input. */
  like(a: Tensor, type: Type = a.type, ne: readonly number[] = a.ne): Tensor {
    const same = [...this.inputs, ...this.nodes].filter(
      (t) => t.type === type && t.ne.every((n, i) => n === (ne[i] ?? 1)),
    );
    return same.length > 0 && this.rng() < 0.7 ? this.pick(same) : this.input(type, ne);
  }
}

const COUNTS = [1, 1, 2, 3, 5, 8];
const CASTS = [Type.F32, Type.F16, Type.BF16, Type.I32, Type.Q8_0, Type.Q4_0, Type.Q5_1];

type Step = (s: Soil) => Tensor;

// A shape of as many elements.
function reshaped(s: Soil, a: Tensor): number[] {
  const n = nelements(a.ne);
  const inner = s.pick([a.ne[0], 1, 32, n].filter((k) => k > 0 && n % k === 0));
  return s.rng() < 0.5 ? [inner, n / inner] : [inner, 1, n / inner];
}

// Any window that lies inside: some elements, other strides, an offset.
function window(s: Soil, a: Tensor): Tensor {
  const { blockSize } = typeInfo(a.type)!;
  const ne = a.ne.map((n, i) => (i === 0 && blockSize > 1 ? n : 1 + s.int(Math.max(1, n))));
  const nb = [1, 2, 3].map((i) => (s.rng() < 0.15 ? s.pick([0, a.nb[0], 2 * a.nb[1]]) : a.nb[i]!));
  return s.g.view(a, ne, { nb, offset: a.nb[1] * s.int(3) });
}

function attention(s: Soil): Tensor {
  const [d, n, kv, hk, r] = [
    s.pick([3, 32]),
    s.pick([1, 3, 5]),
    s.pick([1, 7, 33]),
    s.pick([1, 2]),
    s.pick([1, 3]),
  ];
  const q = s.like(s.f32(), Type.F32, [d, n, hk * r]);
  const type = s.pick([Type.F32, Type.F16]);
  const k = s.like(q, type, [d, kv, hk]);
  const v = s.like(q, type, [d, kv, hk]);
  const mask = s.rng() < 0.5 ? s.like(q, Type.F32, [kv, n]) : undefined;
  const sinks = s.rng() < 0.3 ? s.like(q, Type.F32, [hk * r]) : undefined;
  return s.g.flashAttn({ q, k, v, mask, sinks, scale: 0.3 });
}

function rotation(s: Soil): Tensor {
  const x = s.any([Type.F32, Type.F16]);
  const nDims = 2 * (1 + s.int(Math.max(1, x.ne[0] >> 1)));
  const positions = s.input(Type.I32, [x.ne[2]]);
  const factors = s.rng() < 0.4 ? s.like(x, Type.F32, [x.ne[0]]) : undefined;
  return s.g.rope(x, positions, factors, { nDims, mode: s.pick([0, 2]) });
}

function product(s: Soil): Tensor {
  const b = s.any([Type.F32, Type.F16]);
  const types = b.type === Type.F32 ? [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0] : [Type.F16];
  const type = s.pick(types);
  const ne = [b.ne[0], s.pick([1, 3, 4, 9]), s.pick([1, b.ne[2]]), s.pick([1, b.ne[3]])];
  if (type === Type.F32 || type === Type.F16) return s.g.mulMat(s.like(b, type, ne), b);
  return s.g.mulMat(s.g.cast(s.like(b, Type.F32, ne), type), b);
}

function masked(s: Soil): Tensor {
  const x = s.f32();
  const mask = s.rng() < 0.6 ? s.like(x, s.pick([Type.F32, Type.F16]), [x.ne[0], x.ne[1]]) : undefined;
  const sinks = s.rng() < 0.3 ? s.like(x, Type.F32, [x.ne[2]]) : undefined;
  const maxBias = mask !== undefined && s.rng() < 0.3 ? 8 : 0;
  return s.g.softMax(x, mask, { scale: 0.7, maxBias }, sinks);
}

// b of a's shape, or one that is repeated over it.
function partner(s: Soil, a: Tensor): Tensor {
  const ne = a.ne.map((n) => (s.rng() < 0.3 ? 1 : n));
  return s.rng() < 0.15 ? a : s.like(a, s.pick([a.type, Type.F32]), ne);
}

const FLOATS = [Type.F32, Type.F16, Type.BF16];

const PURE: readonly Step[] = [
  (s) => s.input(),
  (s) => s.g.reshape(...withShape(s, s.any())),
  (s) => window(s, s.any()),
  (s) => window(s, s.any()),
  (s) => s.g.permute(s.any(), s.pick([[1, 0, 2, 3], [0, 2, 1, 3], [2, 3, 0, 1], [3, 1, 2, 0]])), // prettier-ignore
  (s) => s.g.transpose(s.any()),
  (s) => s.g.cont(s.any()),
  (s) => s.g.cont(s.any()),
  (s) => s.g.dup(s.any()),
  (s) => s.g.cast(s.any(), s.pick(CASTS)),
  (s) => s.g.getRows(...table(s)),
  (s) => s.g.repeat(...tiled(s)),
  (s) => joined(s),
  ...[0, 0, 0].map(
    () =>
      (s: Soil): Tensor =>
        binary(s),
  ),
  ...[0, 0, 0].map(
    () =>
      (s: Soil): Tensor =>
        map(s),
  ),
  (s) => s.g.swiglu(s.any(FLOATS)),
  (s) => gated(s),
  (s) => s.pick([s.g.sum, s.g.sumRows, s.g.mean]).call(s.g, s.f32()),
  (s) => s.g.cumsum(s.f32()),
  (s) => s.g.argmax(s.f32()),
  (s) => s.g.argsort(s.f32(), s.pick(["asc", "desc"])),
  (s) => s.g.topK(...best(s)),
  (s) => s.pick([s.g.norm, s.g.rmsNorm, s.g.l2Norm]).call(s.g, s.f32(), 1e-5),
  masked,
  masked,
  (s) => s.g.diagMaskInf(s.f32(), s.int(4)),
  product,
  product,
  rotation,
  rotation,
  attention,
];

/** Steps that write into a tensor which others may read. */
const WRITING: readonly Step[] = [(s) => s.g.cpy(...onto(s)), (s) => s.g.cpy(...onto(s)), (s) => rowsInto(s)];

function withShape(s: Soil, a: Tensor): [Tensor, number[]] {
  return [a, reshaped(s, a)];
}

function best(s: Soil): [Tensor, number] {
  const a = s.f32();
  return [a, 1 + s.int(a.ne[0])];
}

function table(s: Soil): [Tensor, Tensor] {
  const t = s.any([...FLOATS, Type.I32, Type.Q8_0, Type.Q4_0]);
  // fill() writes 0, 1, 2
  return [
    t.ne[1] >= 3 ? t : s.input(t.type === Type.I32 ? Type.I32 : Type.F32, [5, 3]),
    s.input(Type.I32, [4]),
  ];
}

function tiled(s: Soil): [Tensor, number[]] {
  const a = s.any();
  return [a, a.ne.map((n) => n * s.pick([1, 1, 2, 3]))];
}

function joined(s: Soil): Tensor {
  const a = s.any();
  const dim = s.int(4);
  const ne = a.ne.map((n, i) => (i === dim ? s.pick([1, 2, 32]) : n));
  const b = s.rng() < 0.3 ? a : s.like(a, a.type, ne);
  return s.g.concat(a, b, dim);
}

function binary(s: Soil): Tensor {
  const a = s.any([...FLOATS, Type.Q8_0]);
  const b = partner(s, a);
  return s.pick([s.g.add, s.g.add, s.g.sub, s.g.mul, s.g.div]).call(s.g, a, b);
}

function map(s: Soil): Tensor {
  const a = s.any(FLOATS);
  const maps: (() => Tensor)[] = [
    () => s.g.sqr(a),
    () => s.g.sqrt(a),
    () => s.g.scale(a, 0.5, 0.25),
    () => s.g.clamp(a, -1, 1),
    () => s.g.unary(a, s.int(Unary.XIELU) as Unary),
    () => s.g.leakyRelu(a, 0.1),
    () => s.g.fill(a, 3),
    () => s.g.sin(a),
  ];
  return s.pick(maps)();
}

function gated(s: Soil): Tensor {
  const x = s.any(FLOATS);
  return s.g.glu(x, s.rng() < 0.2 ? x : s.like(x), { fn: s.int(Glu.COUNT) as Glu });
}

function onto(s: Soil): [Tensor, Tensor] {
  const target = s.any();
  return [s.like(target, s.pick([target.type, Type.F32])), target];
}

function rowsInto(s: Soil): Tensor {
  const target = s.any([...FLOATS, Type.Q8_0]);
  if (target.ne[1] < 3) return s.input();
  const rows = s.like(target, Type.F32, [target.ne[0], 2, target.ne[2], target.ne[3]]);
  return s.g.setRows(target, rows, s.input(Type.I32, [2]));
}

/** Grows at most `n` nodes; steps whose operands do not fit are skipped. `writing`: also nodes that write into others. */
export function grow(g: Graph, rng: Random, n: number, writing: boolean): Grown {
  const s = new Soil(g, rng);
  s.input();
  const steps = writing ? [...PURE, ...WRITING] : PURE;
  for (let tries = 4 * n; tries > 0 && s.nodes.length < n; tries--) {
    try {
      const t = s.pick(steps)(s);
      if (!t.isLeaf && nelements(t.ne) < 100_000) s.nodes.push(t);
    } catch (error) {
      if (!(error instanceof GraphError)) throw error;
    }
  }
  return s;
}
