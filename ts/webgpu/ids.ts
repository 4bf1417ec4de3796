// Ids that the host wrote: known before a run, so a bad one ends it before anything is submitted.

import { Flag, Op, SRC_LIVE } from "../../assembly/abi.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Shape } from "../shape.ts";
import { Type } from "../types.ts";
import { GpuBuffer, type Watch } from "./buffer.ts";
import { type FaultSite, idError } from "./faults.ts";

/** What a node reads ids for. */
interface IdUse {
  readonly ids: Tensor;
  /** ids below it are good */
  readonly rows: number;
  /** rows that have ids, those of dimensions 1 to 3 */
  readonly of: Shape;
}

/** The ids of a node; undefined of one that reads none. */
export function idsOf({ tensor, src }: ProgramNode): IdUse | undefined {
  switch (tensor.op) {
    case Op.GET_ROWS:
      return { ids: src[1]!, rows: src[0]!.ne[1], of: tensor.ne };
    case Op.SET_ROWS:
      return { ids: src[1]!, rows: tensor.ne[1], of: src[0]!.ne };
    case Op.MUL_MAT_ID:
      return { ids: src[2]!, rows: src[0]!.ne[2], of: tensor.ne };
    case Op.ADD_ID:
      return { ids: src[2]!, rows: src[1]!.ne[1], of: tensor.ne };
    default:
      return undefined;
  }
}

interface Check {
  readonly site: FaultSite;
  readonly use: IdUse;
  readonly ids: Watch;
  readonly live: Watch | undefined;
}

/** The ids of a program that nobody but the host writes. */
export class HostIds {
  readonly #checks: readonly Check[];
  readonly #watches = new Map<Tensor, Watch>();
  readonly #seen: Tensor[] = [];

  constructor(program: Program) {
    const written = new Set(
      program.nodes.map((n) => (n.tensor.op > Op.TRANSPOSE ? n.tensor.root : undefined)),
    );
    const leafs = new Set(program.leafs.filter((t) => (t.flags & Flag.EXTERNAL) === 0 && !written.has(t)));
    const seen = new Set<string>();
    this.#checks = program.nodes.flatMap((node, index) => {
      const use = idsOf(node);
      const live = node.src[SRC_LIVE];
      if (use === undefined || !leafs.has(use.ids.root)) return [];
      if (live !== undefined && !leafs.has(live.root)) return [];
      const key = [...[use.ids, live].map((t) => t && this.#keyOf(t)), use.rows, ...use.of.slice(1)].join();
      if (seen.has(key)) return [];
      seen.add(key);
      const ids = this.#watch(use.ids);
      const site = { node: index, tensor: node.tensor, rows: use.rows };
      return ids === undefined ? [] : [{ site, use, ids, live: live && this.#watch(live) }];
    });
  }

  #keyOf(t: Tensor): number {
    const i = this.#seen.indexOf(t);
    return i >= 0 ? i : this.#seen.push(t) - 1;
  }

  #watch(t: Tensor): Watch | undefined {
    const at = t.placement;
    if (!(at?.memory instanceof GpuBuffer)) return undefined;
    const watch = this.#watches.get(t) ?? at.memory.watch(at.offset, t.nBytes);
    this.#watches.set(t, watch);
    return watch;
  }

  /**
   * Looks at the ids of nodes [first, last).
   *
   * @throws {DeviceError} trap, with the node
   */
  check(first: number, last: number): void {
    for (const c of this.#checks) if (c.site.node >= first && c.site.node < last) checkOne(c);
  }

  dispose(): void {
    for (const watch of this.#watches.values()) watch.dispose();
    this.#watches.clear();
  }
}

function checkOne({ site, use: { ids, rows, of }, ids: watch, live }: Check): void {
  if (!watch.known || live?.known === false) return;
  const view = new DataView(watch.bytes.buffer);
  const count =
    live === undefined ? Infinity : Math.max(0, new DataView(live.bytes.buffer).getInt32(0, true));
  const [, n1, n2, n3] = of;
  const end = n1 * n2 * n3 === 0 ? 0 : liveRows(of, count);
  for (let r = 0; r < end; r++) {
    const i1 = Math.floor(r / n1);
    const at = (r % n1) * ids.nb[0] + ((i1 % n2) % ids.ne[1]) * ids.nb[1];
    const place = at + (Math.floor(i1 / n2) % ids.ne[2]) * ids.nb[2];
    const id = ids.type === Type.I64 ? Number(view.getBigInt64(place, true)) : view.getInt32(place, true);
    if (id < 0 || id >= rows) throw idError(site, id);
  }
}

// Rows that hold data when `count` columns are live (assembly/node.ts).
function liveRows([, n1, n2, n3]: Shape, count: number): number {
  if (n3 > 1) return Math.min(count, n3) * n1 * n2;
  return n2 > 1 ? Math.min(count, n2) * n1 : Math.min(count, n1);
}
