// Verdicts of the self-test that outlive a process: where they are kept, and when they are not believed.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { build as esbuild } from "esbuild";
import { afterAll, afterEach, describe, expect, it, test } from "vitest";
import manifest from "../package.json" with { type: "json" };
import { Op } from "../assembly/abi.ts";
import { createEngine } from "../ts/index.ts";
import type { Program } from "../ts/graph/program.ts";
import type { VerdictStore } from "../ts/runtime/backend.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import { VERSION } from "../ts/version.ts";
import { Type } from "../ts/types.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { openDevice } from "../ts/webgpu/device.ts";
import type { GpuKernel, Kernels } from "../ts/webgpu/kernel.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";
import { hashOf, KeptVerdicts, verdictStore } from "../ts/webgpu/selftest/kept.ts";
import { describeGpu } from "./gpu_describe.ts";
import { engineOver } from "./gpu_engine.ts";
import { testGpu } from "./gpu_host.ts";
import { startChromium } from "./hosts/chromium.ts";
import { CHROMIUM, itNeeds, PLAYWRIGHT } from "./hosts/host.ts";
import { startServer } from "./hosts/server.ts";

/** A store that can be looked into. */
function mapStore(): VerdictStore & { readonly map: Map<string, string> } {
  const map = new Map<string, string>();
  return { map, get: (key) => map.get(key), set: (key, text) => void map.set(key, text) };
}

const passed = (...keys: string[]): Map<string, string> => new Map(keys.map((k) => [k, hashOf(k)]));

test("the version that verdicts carry is the package's", () => expect(VERSION).toBe(manifest.version));

test("hashes differ where a character does", () => {
  const texts = ["", "a", "b", "ab", "ba", "let x = 1;", "let x = 2;"];
  expect(new Set(texts.map(hashOf)).size).toBe(texts.length);
  for (const t of texts) expect(hashOf(t)).toMatch(/^[0-9a-f]{16}$/);
});

describe("kept verdicts", () => {
  it("are those of one adapter, added to", async () => {
    const store = mapStore();
    const kept = new KeptVerdicts(store, "A");
    await kept.add(passed("one"));
    await new KeptVerdicts(store, "A").add(passed("two"));
    expect(await kept.read()).toEqual(passed("one", "two"));
    expect(await new KeptVerdicts(store, "B").read()).toEqual(new Map());
    expect([...store.map.keys()]).toEqual([expect.stringContaining(` ${VERSION} `)]);
  });

  it("are none of another version's", async () => {
    const store = mapStore();
    await new KeptVerdicts(store, "A").add(passed("one"));
    const [[key, text]] = [...store.map] as [[string, string]];
    store.map.clear();
    store.map.set(key.replace(VERSION, "0.0.9"), text);
    expect(await new KeptVerdicts(store, "A").read()).toEqual(new Map());
  });

  it("are none where the store holds something else or throws", async () => {
    for (const text of ["", "{", "null", "[1]", '"x"', '{"one":1}', 7, undefined])
      expect(await new KeptVerdicts({ get: () => text, set: () => undefined }, "A").read()).toEqual(
        new Map(),
      );
    const broken = (): never => {
      throw new Error("full");
    };
    const kept = new KeptVerdicts({ get: broken, set: () => Promise.reject(new Error("full")) }, "A");
    expect(await kept.read()).toEqual(new Map());
    await kept.add(passed("one"));
  });
});

describe("a store of verdicts", () => {
  const folder = mkdtempSync(join(tmpdir(), "verdicts-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  it("is a file where a path is given", async () => {
    const path = join(folder, "verdicts.json");
    const store = verdictStore(path)!;
    expect(await store.get("a")).toBeUndefined();
    await store.set("a", "1");
    await store.set("b", "2");
    expect([await store.get("a"), await verdictStore(path)!.get("b")]).toEqual(["1", "2"]);
    expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({ a: "1", b: "2" });
    writeFileSync(path, "no JSON");
    expect(await store.get("a")).toBeUndefined();
  });

  it("is none in Node without a path, nor when it is not wanted", () => {
    expect(verdictStore(undefined)).toBeUndefined();
    expect(verdictStore(false)).toBeUndefined();
    const own = mapStore();
    expect(verdictStore(own)).toBe(own);
  });

  it("of another kind is refused", async () => {
    for (const verdicts of [{}, true, 1, null, { get: 1, set: 2 }])
      await expect(createEngine({ device: "cpu", verdicts: verdicts as unknown as string })).rejects.toThrow(
        expect.objectContaining({ code: "bad-param" }),
      );
  });
});

/** In a page: keeps something where nothing was asked for, and says what is there. */
const PAGE = `
import { KeptVerdicts, verdictStore } from ${JSON.stringify(resolve("ts/webgpu/selftest/kept.ts"))};
const kept = new KeptVerdicts(verdictStore(undefined), "A | B/?#");
const before = (await kept.read()).size;
await kept.add(new Map([["one", "1"]]));
console.log("kept " + JSON.stringify([before, Object.fromEntries(await kept.read())]));`;

describe("pages", () => {
  itNeeds(
    [CHROMIUM, PLAYWRIGHT],
    "keep verdicts in the Cache API",
    async () => {
      const { outputFiles } = await esbuild({
        stdin: { contents: PAGE, resolveDir: resolve(".") },
        bundle: true,
        write: false,
        format: "esm",
        target: "es2022",
      });
      const files = new Map([
        ["page.html", '<!doctype html><title>kept</title><script type="module" src="page.js"></script>'],
        ["page.js", outputFiles[0]!.text],
      ]);
      const server = await startServer(files);
      const browser = await startChromium();
      try {
        const { line, others } = await browser.logged(`${server.origin}/plain/page.html`, "kept ", 30_000);
        expect(JSON.parse(line)).toEqual([0, { one: "1" }]);
        expect(others).toEqual([]);
      } finally {
        await browser.close();
        await server.close();
      }
    },
    60_000,
  );
});

await describeGpu("the self-test with kept verdicts", () => {
  const open: Engine[] = [];
  afterEach(() => {
    for (const engine of open.splice(0)) engine.dispose();
  });

  async function prepared(store: VerdictStore, kernels: Kernels = KERNELS): Promise<GpuBackend> {
    const backend = new GpuBackend(await openDevice({ gpu: await testGpu() }), kernels, undefined, store);
    const engine = await engineOver(backend);
    open.push(engine);
    using g = engine.graph();
    const x = g.input("x", Type.F32, [33, 5]);
    g.mul(g.sqr(x), x).asOutput();
    const program: Program = g.program();
    await backend.prepare(program);
    return backend;
  }

  const sqr = (change: (source: string) => string): Kernels => {
    const { dispatches, ...rest } = KERNELS[Op.SQR] as GpuKernel;
    const changed: GpuKernel = {
      ...rest,
      dispatches: (node, caps) =>
        dispatches(node, caps).map((d) => ({ ...d, source: () => change(d.source()) })),
    };
    return { ...KERNELS, [Op.SQR]: changed };
  };

  it("runs nothing that passed before, and all that has changed since", async () => {
    const store = mapStore();
    expect((await prepared(store)).gpu.counts.pipelines).toBe(2);
    const again = await prepared(store);
    expect(again.gpu.counts).toMatchObject({ pipelines: 0, submits: 0, buffers: 0 });
    const other = await prepared(
      store,
      sqr((s) => `${s}// changed\n`),
    );
    expect(other.gpu.counts.pipelines).toBe(1);
  });

  it("tests what was refused again", async () => {
    const store = mapStore();
    const wrong = sqr((s) => s.replaceAll("dst_set_f32(", "dst_set_f32(4u + "));
    for (let i = 0; i < 2; i++) {
      const backend = await prepared(store, wrong);
      expect([...backend.refused().values()]).toEqual([expect.stringMatching(/differs/)]);
      expect(backend.gpu.counts.pipelines).toBe(i === 0 ? 2 : 1);
    }
  });
});
