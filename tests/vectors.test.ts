// 256-bit vectors: who gets them, and what is refused. That results keep their bits: hosts.test.ts.
import { expect, it } from "vitest";
import { createEngine } from "../ts/index.ts";
import { comparedVectors, type HostProcess, widenVectors } from "../ts/runtime/vectors.ts";

function host(v8: string, change: Partial<HostProcess["versions"]> = {}, arch = "x64"): HostProcess {
  return { arch, versions: { v8, ...change } };
}

it.each([
  ["V8 13.6, which packs some sums wrongly", host("13.6.233.17-node.63"), 128],
  ["an old V8", host("9.6.180.15"), 128],
  ["another processor", host("14.6.202.34-node.40", {}, "arm64"), 128],
  ["Bun, which names a version of V8", host("14.6.202.34-node.20", { bun: "1.4.0" }), 128],
  ["Deno, whose V8 lacks the pass", host("15.0.245.2-rusty", { deno: "2.9.0" }), 128],
  ["no version at all", { arch: "x64", versions: {} }, 128],
] as const)("%s stays at 128 bits when asked for 256, and by default", (_, process, bits) => {
  expect(widenVectors(process)).toBe(bits);
  expect(comparedVectors(process)).toBe(128);
});

it("only versions of V8 that were compared get 256 bits unasked, others when asked", () => {
  expect(comparedVectors(host("14.6.202.34-node.40"))).toBe(256);
  expect(comparedVectors(host("14.60.1.1"))).toBe(128);
  expect(comparedVectors(host("15.0.1.1"))).toBe(128);
});

it("an engine says what its kernels are shaped for: 128 unless asked", async () => {
  using engine = await createEngine({ nThreads: 1, device: "cpu" });
  expect(engine.vectors).toBe(128);
});

it.each([0, 64, 512, "256", null, NaN])("vectors: %s is refused", async (vectors) => {
  await expect(createEngine({ vectors: vectors as never })).rejects.toMatchObject({
    code: "bad-param",
    details: { actual: vectors },
  });
});
