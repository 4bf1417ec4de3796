// Where time goes: nodes of later runs, summed up by operator and by name, or as a trace for Chrome's viewer.

import { Op } from "../../assembly/abi.ts";
import type { Tensor } from "../graph/tensor.ts";
import { typeName } from "../types.ts";
import { CpuBackend } from "./cpu.ts";
import type { Engine } from "./engine.ts";

/** Time of the nodes that share a name or operator. */
export interface ProfileRow {
  readonly name: string;
  /** times that one of them ran */
  readonly count: number;
  /** milliseconds in all */
  readonly ms: number;
  /** part of the time of all nodes, 0..1 */
  readonly share: number;
}

interface Sample {
  readonly tensor: Tensor;
  readonly phase: string;
  readonly start: number;
  readonly end: number;
}

/** Operators of weights and attention: what a decode step is for. */
const PRODUCTS: readonly Op[] = [Op.MUL_MAT, Op.MUL_MAT_ID, Op.FLASH_ATTN_EXT];

/** Records each node that an engine runs on the CPU, until it is stopped. Costs about a microsecond a node. */
export class Profile {
  /** what the nodes belong to from now on */
  phase = "";
  readonly #samples: Sample[] = [];
  readonly #backend: CpuBackend | undefined;

  constructor(engine: Engine) {
    this.#backend = engine.backend instanceof CpuBackend ? engine.backend : undefined;
    if (this.#backend === undefined) return;
    this.#backend.onNode = (tensor, start, end) => {
      if (tensor.op > Op.TRANSPOSE) this.#samples.push({ tensor, phase: this.phase, start, end });
    };
  }

  stop(): void {
    if (this.#backend !== undefined) this.#backend.onNode = undefined;
  }

  /** By operator, dearest first; products by the type of their weights. */
  byOp(phase: string): ProfileRow[] {
    return this.#grouped(phase, opLabel);
  }

  /** By the node's name without its layer's number, dearest first. */
  byNode(phase: string): ProfileRow[] {
    return this.#grouped(phase, (t) => `${opLabel(t)} ${nodeName(t)}`);
  }

  /** Part of a phase's time that goes to neither products with weights nor attention, 0..1. */
  outsideProducts(phase: string): number {
    const rows = this.#grouped(phase, (t) => (PRODUCTS.includes(t.op) ? "products" : "others"));
    return rows.find((r) => r.name === "others")?.share ?? 0;
  }

  /** Milliseconds of all nodes of a phase. */
  total(phase: string): number {
    return this.#of(phase).reduce((sum, s) => sum + s.end - s.start, 0);
  }

  /** The format of chrome://tracing and Perfetto. */
  trace(): object {
    return {
      traceEvents: this.#samples.map(({ tensor, phase, start, end }) => ({
        name: opLabel(tensor),
        cat: phase,
        ph: "X",
        pid: 1,
        tid: 1,
        ts: start * 1000,
        dur: (end - start) * 1000,
        args: { tensor: tensor.name, ne: tensor.ne, sources: tensor.src.map((s) => s?.name) },
      })),
    };
  }

  #of(phase: string): Sample[] {
    return this.#samples.filter((s) => s.phase === phase);
  }

  #grouped(phase: string, keyOf: (t: Tensor) => string): ProfileRow[] {
    const groups = new Map<string, { count: number; ms: number }>();
    for (const { tensor, start, end } of this.#of(phase)) {
      const key = keyOf(tensor);
      const { count, ms } = groups.get(key) ?? { count: 0, ms: 0 };
      groups.set(key, { count: count + 1, ms: ms + end - start });
    }
    const total = this.total(phase);
    return [...groups]
      .map(([name, { count, ms }]) => ({ name, count, ms, share: ms / total }))
      .sort((a, b) => b.ms - a.ms);
  }
}

function opLabel(t: Tensor): string {
  const op = Op[t.op]!.toLowerCase();
  const weights = t.src[0];
  return PRODUCTS.slice(0, 2).includes(t.op) && weights !== undefined
    ? `${op} ${typeName(weights.type)}`
    : op;
}

function nodeName(t: Tensor): string {
  const name = t.name === "" ? (t.src[0]?.name ?? "") : t.name;
  return `${name.replace(/\d+/g, "N")} [${t.ne.join(", ")}]`.trimStart();
}
