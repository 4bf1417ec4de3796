// Random graphs for the planner's tests: branches, views, views that are written to, in-place ops, scratch, two buffers.
import fc from "fast-check";
import type { Graph, Tensor } from "./plan_data.ts";

/** One random choice per field; a graph is built from a list of them, so that fast-check can shrink it. */
interface Choice {
  kind: number;
  size: number;
  a: number;
  b: number;
  flags: number;
}

const choice: fc.Arbitrary<Choice> = fc.record({
  kind: fc.integer({ min: 0, max: 9 }),
  size: fc.constantFrom(1, 3, 8, 8, 8, 31, 33, 64, 100),
  a: fc.nat(1000),
  b: fc.nat(1000),
  flags: fc.nat(15),
});

export interface DagOptions {
  /** give some nodes scratch memory */
  scratch?: boolean;
  /** spread the tensors over two backend buffers */
  buffers?: boolean;
  /** mark views as outputs, too */
  viewOutputs?: boolean;
}

/** Random graphs of up to `nodes` nodes. */
export function dags(nodes: number, o: DagOptions = {}): fc.Arbitrary<Graph> {
  return fc
    .tuple(
      fc.array(choice, { minLength: 1, maxLength: 5 }),
      fc.array(choice, { minLength: 1, maxLength: nodes }),
    )
    .map(([leafs, rest]) => build(leafs, rest, o));
}

function build(leafs: Choice[], nodes: Choice[], o: DagOptions): Graph {
  const g: Graph = {
    name: "random",
    alignment: 32,
    n_leafs: leafs.length,
    n_nodes: nodes.length,
    tensors: [],
  };
  for (const c of leafs) g.tensors.push(leaf(g, c));
  for (const c of nodes) {
    const t = node(g, c, o);
    if (o.scratch && c.b % 5 === 0) t.scratch = 1 + (c.a % 300);
    if (o.buffers && t.view_src === null) t.buffer = c.a % 2;
    if (t.view_src !== null) t.buffer = g.tensors[t.view_src]!.buffer ?? 0;
    g.tensors.push(t);
  }
  return g;
}

function tensor(id: number, count: number): Tensor {
  const nb = [4, 4 * count, 4 * count, 4 * count];
  const base = {
    type: "f32",
    src: [],
    view_src: null,
    view_offs: 0,
    flags: [],
    external: false,
    can_inplace: false,
  };
  return { id, ne: [count, 1, 1, 1], nb, size: 4 * count, ...base };
}

function leaf(g: Graph, c: Choice): Tensor {
  const t = tensor(g.tensors.length, c.size);
  if (c.flags % 3 === 0) return { ...t, flags: ["input"] };
  return c.flags % 3 === 1 ? { ...t, external: true } : t;
}

function node(g: Graph, c: Choice, o: DagOptions): Tensor {
  const id = g.tensors.length;
  const pick = (k: number): Tensor => g.tensors[Math.max(0, id - 1 - (k % Math.min(id, 1 + (k % 12))))]!;
  const a = pick(c.a);
  const b = pick(c.b);
  const flags = c.flags === 7 ? ["output"] : [];
  if (c.kind <= 2) return view(id, a, c, o.viewOutputs ? flags : []);
  if (c.kind === 3) return { ...view(id, a, { ...c, kind: 0 }, []), src: [b.id, a.id] }; // writes into a
  const like = c.kind <= 7;
  const t = tensor(id, like ? a.ne[0]! : c.size);
  const src = c.kind % 2 === 0 ? [a.id] : c.kind === 5 ? [b.id, null, a.id] : [a.id, b.id];
  if (c.kind === 9) src.push(id); // a cast names itself
  return { ...t, src, flags, can_inplace: like };
}

// Kinds 0 and 1: all of a; 2: a part of it.
function view(id: number, a: Tensor, c: Choice, flags: string[]): Tensor {
  const t = tensor(id, a.ne[0]!);
  const root = { view_src: a.view_src ?? a.id, view_offs: a.view_offs, src: [a.id], flags };
  if (c.kind < 2 || a.ne[0]! < 2) return { ...t, ...root };
  const half = tensor(id, a.ne[0]! >> 1);
  return { ...half, ...root, view_offs: a.view_offs + (c.b % 2) * half.size };
}
