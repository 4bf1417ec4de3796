// Several graphs over one compute buffer: when a plan is made, when one is used again, what happens on growth.
import { expect, it } from "vitest";
import { Flag } from "../assembly/abi.ts";
import { leaf, type Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine, type EngineEvent } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { type Layer, layer, results, weights, WIDTH } from "./attention_layer.ts";
import { random } from "./plan_lists.ts";

const code = (value: string): unknown => expect.objectContaining({ code: value });

async function withEngine(use: (engine: Engine, events: EngineEvent[]) => Promise<void>): Promise<void> {
  const events: EngineEvent[] = [];
  const engine = await createEngine({ nThreads: 1, logger: { onEvent: (e) => void events.push(e) } });
  try {
    await use(engine, events);
  } finally {
    engine.dispose();
  }
}

const plansIn = (events: readonly EngineEvent[]): number => events.filter((e) => e.type === "plan").length;
const growthsIn = (events: readonly EngineEvent[]): EngineEvent[] => events.filter((e) => e.type === "grow");

it("random prefill lengths on one reserved buffer take no memory, no planning, and give fresh results", async () => {
  const fresh = new Map<number, Float32Array>();
  await withEngine(async (engine) => {
    const w = weights(engine);
    for (let n = 1; n <= 64; n++) {
      const p = layer(engine, w, n);
      p.g.plan();
      fresh.set(n, await results(p));
      p.g.dispose();
    }
  });
  await withEngine(async (engine, events) => {
    const w = weights(engine);
    const reservation = engine.reserve([layer(engine, w, 64).g]);
    expect(plansIn(events)).toBe(1);
    const p1 = layer(engine, w, 1);
    reservation.plan(p1.g);
    p1.g.dispose();
    const before = { ...engine.memory(), pages: engine.arena.memory.buffer.byteLength };
    const planned = plansIn(events);
    const r = random(9);
    for (let i = 0; i < 500; i++) {
      const n = 1 + Math.floor(64 * r());
      const p = layer(engine, w, n);
      reservation.plan(p.g);
      expect(await results(p), `length ${n}`).toEqual(fresh.get(n));
      p.g.dispose();
    }
    expect({ ...engine.memory(), pages: engine.arena.memory.buffer.byteLength }).toEqual(before);
    expect(plansIn(events)).toBe(planned);
    expect(planned).toBe(1);
    expect(growthsIn(events)).toEqual([]);
  });
});

it("growing replaces the buffer once, says so once, and all graphs go on", () =>
  withEngine(async (engine, events) => {
    const w = weights(engine);
    const small = layer(engine, w, 5);
    const reservation = engine.reserve([small.g]);
    const want = await results(small);
    const from = reservation.nBytes;
    const large = layer(engine, w, 40);
    const plan = reservation.plan(large.g);
    expect(growthsIn(events)).toEqual([{ type: "grow", from, to: plan.nBytes, graphs: 1 }]);
    expect(engine.memory().compute).toBe(Math.ceil(plan.nBytes / 64) * 64);
    await results(large);
    expect(await results(small)).toEqual(want);
    reservation.plan(layer(engine, w, 20).g);
    expect([plansIn(events), growthsIn(events).length]).toEqual([2, 1]);
  }));

it("a graph planned again with the same wiring and shapes calls no planner; other wiring does", () =>
  withEngine(async (engine, events) => {
    const make = (left: boolean): Layer => {
      const g = engine.graph();
      const x = g.input("x", Type.F32, [WIDTH, 2]);
      const [p, q] = [g.sqr(x), g.scale(x, 2)];
      return { g, x, y: (left ? g.sub(p, q) : g.sub(q, p)).asOutput() };
    };
    const seen: number[] = [];
    const outputs: number[] = [];
    for (const left of [true, false, true, false, true]) {
      const p = make(left);
      p.g.plan();
      seen.push(plansIn(events));
      outputs.push((await results(p))[0]!);
      p.g.plan();
      p.g.dispose();
    }
    expect(seen).toEqual([1, 2, 2, 2, 2]);
    expect(outputs[0]).toBe(-outputs[1]!);
    expect([outputs[2], outputs[3], outputs[4]]).toEqual([outputs[0], outputs[1], outputs[0]]);
  }));

it("weights interleaved since keep the plan", () =>
  withEngine(async (engine, events) => {
    const w = leaf("w", Type.Q8_0, [32, 8]);
    engine.allocate([w], "weights");
    const g = engine.graph();
    g.mulMat(w, g.input("x", Type.F32, [32, 1])).asOutput();
    g.plan();
    w.flags |= Flag.QUADS;
    g.plan();
    expect(plansIn(events)).toBe(1);
  }));

it("a smaller graph gets a plan of its own where in place no longer holds", () =>
  withEngine(async (engine, events) => {
    // x is read again later, so mul takes over the square's memory while both look alike
    const make = (m: number): Layer & { x0: Tensor } => {
      const g = engine.graph();
      const x0 = g.input("x", Type.F32, [8, 2]);
      const x = g.input("z", Type.F32, [m, 2]);
      return { g, x0, x, y: g.add(g.mul(x0, g.sqr(x)), x0).asOutput() };
    };
    const run = async (p: Layer & { x0: Tensor }): Promise<number[]> => {
      const m = p.x.ne[0]!;
      p.x0.write(Float32Array.from({ length: 16 }, (_, i) => i));
      p.x.write(Float32Array.from({ length: 2 * m }, (_, i) => (i % m) + 1));
      await p.g.compute();
      return [...((await p.y.read()) as Float32Array)];
    };
    const want = (m: number): number[] => Array.from({ length: 16 }, (_, i) => i * ((i % m) + 1) ** 2 + i);
    const reservation = engine.reserve([make(8).g]);
    for (const [m, plans] of [
      [8, 1],
      [4, 2],
      [2, 2],
    ] as const) {
      const p = make(m);
      reservation.plan(p.g);
      expect(plansIn(events), `width ${m}`).toBe(plans);
      expect(await run(p)).toEqual(want(m));
    }
  }));

it("the buffer goes with the last graph, and a refused graph leaves the others as they were", () =>
  withEngine(async (engine) => {
    const w = weights(engine);
    const p = layer(engine, w, 7);
    const reservation = engine.reserve([p.g]);
    const want = await results(p);
    expect(() => reservation.plan(engine.graph())).toThrow(code("bad-plan"));
    const huge = engine.graph();
    huge.sqr(huge.input("h", Type.F32, [32768, 32768])).asOutput(); // 2^32 bytes
    expect(() => reservation.plan(huge)).toThrow(code("too-large"));
    expect(await results(p)).toEqual(want);
    const other = layer(engine, w, 7);
    engine.reserve([other.g]);
    reservation.plan(other.g); // moves over
    p.g.dispose();
    expect(await results(other)).toEqual(want);
    other.g.dispose();
    expect(engine.memory()).toMatchObject({ compute: 0, records: 0 });
    expect([reservation.nBytes, reservation.plans.length]).toEqual([0, 0]);
  }));

it("a graph's plan reports peak, consumers, re-use and the gap to the bound", () =>
  withEngine(async (engine) => {
    const p = layer(engine, weights(engine), 33);
    const plan = p.g.plan();
    const r = plan.report();
    expect([r.peak, r.lowerBound, r.optimal]).toEqual([plan.nBytes, plan.lowerBound, true]);
    expect(r.saved).toBe(Math.max(0, r.sum - r.peak));
    const alive = r.consumers.reduce((sum, c) => sum + c.size, 0);
    expect(alive).toBe(r.peakStep.alive);
    expect(r.reuse.length).toBeGreaterThan(0);
    expect(plan.toText()).toContain(r.peakStep.name);
    expect(JSON.parse(JSON.stringify(plan))).toMatchObject({ peak: plan.nBytes });
    expect(plan.toSVG()).toContain("<svg");
  }));
