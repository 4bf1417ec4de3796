// Random graphs scattered over three backends: the bits of a run on the CPU alone.
import { afterEach, describe, expect, test } from "vitest";
import { Op } from "../assembly/abi.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Plan } from "../ts/graph/plan.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import type { ReportEntry } from "../ts/runtime/report.ts";
import { engineWith, RemoteBackend, type RemoteOptions } from "./backends/remote.ts";
import { fill, grow, random } from "./graph_fuzz.ts";

const open: { dispose(): void }[] = [];

afterEach(() => {
  for (const x of open.splice(0)) x.dispose();
});

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

describe.each([
  ["as the CPU does", {}, {}],
  ["without results in place", { inPlace: false }, { inPlace: false }],
  [
    "with gaps: A lacks some operators, B others",
    { refuse: [Op.SOFT_MAX, Op.MUL_MAT, Op.CONT] },
    { refuse: [Op.ADD, Op.CPY] },
  ],
] as [string, RemoteOptions, RemoteOptions][])("random graphs on devices %s", (_, a, b) => {
  test.each([true, false])(
    "equal those of the CPU, with nodes scattered by pins; nodes that write into others: %s",
    async (writing) => {
      const engine = await engineWith([await RemoteBackend.open("a", a), await RemoteBackend.open("b", b)]);
      const cpu = await createEngine({ nThreads: 1, device: "cpu" });
      open.push(engine, cpu);
      for (let i = 0; i < 25; i++) {
        const seed = 77 * i + (writing ? 1 : 2);
        const { bytes: want } = await fuzz(cpu, seed, writing, false);
        for (const pins of [false, true]) {
          const { bytes: got } = await fuzz(engine, seed, writing, pins);
          const differ = want.flatMap((bytes, k) => (equal(bytes, got[k]!) ? [] : [k]));
          expect([seed, pins, ...differ]).toEqual([seed, pins]);
        }
      }
    },
  );
});

describe("random graphs on devices whose largest buffer is a part of what they need", () => {
  test.each([true, false])(
    "equal those of the CPU in one to five buffers and more; nodes that write into others: %s",
    async (writing) => {
      const device = await RemoteBackend.open("a");
      const engine = await engineWith([device]);
      const cpu = await createEngine({ nThreads: 1, device: "cpu" });
      open.push(engine, cpu);
      const counts = new Set<number>();
      for (let i = 0; i < 96; i++) {
        const seed = 91 * i + (writing ? 1 : 2);
        const { bytes: want } = await fuzz(cpu, seed, writing, false);
        device.maxSize = 2 ** 31;
        const whole = await fuzz(engine, seed, writing, i % 2 === 1);
        device.maxSize = partOf(whole.plan, 1 + (i % 8));
        const { bytes: got, plan } = await fuzz(engine, seed, writing, i % 2 === 1);
        const differ = want.flatMap((bytes, k) => (equal(bytes, got[k]!) ? [] : [k]));
        expect([seed, ...differ]).toEqual([seed]);
        const chunks = plan.backends.find((b) => b.name === "a")?.chunks ?? [];
        counts.add(chunks.length);
        expect(Math.max(0, ...chunks)).toBeLessThanOrEqual(device.maxSize);
        expect(device.buffers.size).toBe(0);
      }
      expect([...counts]).toEqual(expect.arrayContaining([1, 2, 3, 4, 5]));
    },
  );
});

// An nth of the device's part of a plan, or its largest tensor.
function partOf(plan: Plan, n: number): number {
  const { entries } = plan.toJSON() as { entries: readonly ReportEntry[] };
  const ours = entries.filter((e) => e.within === undefined || e.within.buffer === "a");
  const nBytes = plan.backends.find((b) => b.name === "a")?.nBytes ?? 0;
  return 256 * Math.ceil(Math.max(256, nBytes / n, ...ours.map((e) => e.size)) / 256);
}

/** Outputs of a random graph, and its plan; with `pins` each node that may is put on a random backend. */
async function fuzz(
  engine: Engine,
  seed: number,
  writing: boolean,
  pins: boolean,
): Promise<{ readonly bytes: Uint8Array[]; readonly plan: Plan }> {
  const g = engine.graph();
  const rng = random(seed + 3);
  const { inputs, nodes } = grow(g, random(seed), 25, writing);
  if (writing) for (const t of nodes) g.expand(t);
  const outputs = nodes.filter((_, i) => i === nodes.length - 1 || rng() < 0.15);
  for (const t of outputs) t.asOutput();
  if (pins) scatter(engine, g, rng);
  const plan = g.plan();
  inputs.forEach((t, k) => t.placement !== undefined && fill(t, random(seed + k)));
  await g.compute();
  const bytes = await Promise.all(outputs.map((t) => t.readBytes()));
  g.dispose();
  return { bytes, plan };
}

// A pin may ask what a backend cannot do: then it is left out.
function scatter(engine: Engine, g: Graph, rng: () => number): void {
  const names = engine.devices.map((b) => b.name);
  for (const { tensor } of g.program().nodes) {
    if (tensor.viewSrc !== undefined || rng() < 0.3) continue;
    g.pin(tensor, names[Math.floor(rng() * names.length)]);
    try {
      g.splits();
    } catch {
      g.pin(tensor, undefined);
    }
  }
}
