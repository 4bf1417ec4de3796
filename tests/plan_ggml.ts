// ggml's allocator once more, in plain TypeScript and written from its description: an independent witness.
import type { Lifetime } from "../ts/runtime/plan_check.ts";
import type { Graph, Tensor } from "./plan_data.ts";

interface Block {
  offset: number;
  size: number;
}

/** A dynamic allocator with ggml's choices. */
export class Dynamic {
  peak = 0;
  private free: Block[] = [{ offset: 0, size: Infinity }];

  alloc(size: number): number {
    const blocks = this.free;
    let best = blocks.length - 1;
    let bestSize = Infinity;
    blocks.slice(0, -1).forEach((b, i) => {
      if (b.size < size || b.size > bestSize) return;
      best = i;
      bestSize = b.size;
    });
    const b = blocks[best]!;
    const offset = b.offset;
    b.offset += size;
    b.size -= size;
    if (b.size === 0) blocks.splice(best, 1);
    this.peak = Math.max(this.peak, offset + size);
    return offset;
  }

  release(offset: number, size: number): void {
    this.free.push({ offset, size });
    this.free.sort((a, b) => a.offset - b.offset);
    const merged: Block[] = [];
    for (const b of this.free) {
      const last = merged.at(-1);
      if (b.size > 0 && last && last.offset + last.size === b.offset) last.size += b.size;
      else if (b.size > 0) merged.push({ ...b });
    }
    this.free = merged;
  }
}

/** Best fit in order of birth over a bare list; deaths first where they meet births. */
export function dynamicBestFit(list: readonly Lifetime[]): { offsets: number[]; peak: number } {
  const d = new Dynamic();
  const offsets = list.map(() => 0);
  const live = list.map((_, i) => i).filter((i) => list[i]!.size > 0 && list[i]!.upper > list[i]!.lower);
  const events = live.flatMap((i) => [
    { time: list[i]!.lower, born: 1, i },
    { time: list[i]!.upper, born: 0, i },
  ]);
  events.sort((a, b) => a.time - b.time || a.born - b.born || a.i - b.i);
  for (const { born, i } of events) {
    if (born) offsets[i] = d.alloc(list[i]!.size);
    else d.release(offsets[i]!, list[i]!.size);
  }
  return { offsets, peak: d.peak };
}

/** Most bytes alive at once, looking at every birth. */
export function lowerBoundOf(list: readonly Lifetime[]): number {
  const alive = list.filter((b) => b.upper > b.lower);
  const births = [...alive].sort((a, b) => a.lower - b.lower);
  const deaths = [...alive].sort((a, b) => a.upper - b.upper);
  let [bytes, most, j] = [0, 0, 0];
  for (const b of births) {
    for (; deaths[j]!.upper <= b.lower; j++) bytes -= deaths[j]!.size;
    bytes += b.size;
    most = Math.max(most, bytes);
  }
  return most;
}

/** What ggml's graph allocator makes of a graph. */
export interface GgmlPlan {
  peak: number;
  offsets: Map<number, number>;
  parent: Map<number, number>;
}

/** The graph allocator, one buffer. */
export function ggmlPlan(g: Graph): GgmlPlan {
  return new Gallocr(g).run();
}

class Gallocr {
  private readonly d = new Dynamic();
  private readonly children = new Map<number, number>();
  private readonly views = new Map<number, number>();
  private readonly owned = new Map<number, number>(); // id -> size held
  private readonly offsets = new Map<number, number>();
  private readonly parent = new Map<number, number>();

  constructor(private readonly g: Graph) {}

  run(): GgmlPlan {
    const { g } = this;
    const nodes = g.tensors.slice(g.n_leafs);
    for (const leaf of g.tensors.slice(0, g.n_leafs)) this.alloc(leaf);
    for (const n of nodes) {
      if (n.view_src !== null) bump(this.views, n.view_src, 1);
      if (n.flags.includes("input")) this.alloc(n);
      for (const s of this.sources(n)) {
        bump(this.children, s.id, 1);
        if (s.flags.includes("input")) this.alloc(s);
      }
    }
    for (const n of nodes) this.step(n);
    return { peak: this.d.peak, offsets: this.offsets, parent: this.parent };
  }

  private sources(n: Tensor): Tensor[] {
    return n.src.filter((s) => s !== null && s !== n.id).map((s) => this.g.tensors[s!]!);
  }

  private padded(size: number): number {
    return Math.ceil(size / this.g.alignment) * this.g.alignment;
  }

  private step(n: Tensor): void {
    for (const s of this.sources(n)) this.alloc(s);
    this.alloc(n);
    if (n.scratch) {
      const size = this.padded(n.scratch);
      this.d.release(this.d.alloc(size), size);
    }
    for (const s of this.sources(n)) {
      if (bump(this.children, s.id, -1) > 0 || (this.views.get(s.id) ?? 0) > 0) continue;
      if (s.view_src === null) this.free(s);
      else this.viewGone(this.g.tensors[s.view_src]!);
    }
  }

  private viewGone(root: Tensor): void {
    if (bump(this.views, root.id, -1) === 0 && (this.children.get(root.id) ?? 0) === 0) this.free(root);
  }

  private free(t: Tensor): void {
    const size = this.owned.get(t.id);
    if (size === undefined || t.flags.includes("output")) return;
    this.owned.delete(t.id);
    this.d.release(this.offsets.get(t.id)!, size);
  }

  private alloc(t: Tensor): void {
    if (t.external || t.view_src !== null || this.offsets.has(t.id)) return;
    const size = this.padded(t.size);
    const from = t.can_inplace ? this.sources(t).find((s) => this.gives(s, t)) : undefined;
    if (from) {
      this.owned.delete(from.id);
      this.offsets.set(t.id, this.offsets.get(from.id)!);
      this.parent.set(t.id, from.id);
    } else this.offsets.set(t.id, this.d.alloc(size));
    this.owned.set(t.id, size);
  }

  private gives(s: Tensor, t: Tensor): boolean {
    if (!this.owned.has(s.id) || s.flags.includes("output")) return false;
    if (s.type !== t.type || s.ne.join() !== t.ne.join() || s.nb.join() !== t.nb.join()) return false;
    return this.children.get(s.id) === 1 && (this.views.get(s.id) ?? 0) === 0;
  }
}

function bump(m: Map<number, number>, id: number, k: number): number {
  const v = (m.get(id) ?? 0) + k;
  m.set(id, v);
  return v;
}
