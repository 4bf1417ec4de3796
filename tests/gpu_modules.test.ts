// Every shader module compiles, with and without subgroups. That another compiler takes them: gpu_hosts.test.ts.
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeGpu } from "./gpu_describe.ts";
import { testGpu } from "./gpu_host.ts";
import { allModules, refusedBy } from "./gpu_modules.ts";

await describeGpu("a shader compiler", () => {
  let device: GPUDevice;
  let subgroups = false;

  beforeAll(async () => {
    const adapter = await (await testGpu())!.requestAdapter();
    subgroups = adapter!.features.has("subgroups");
    device = await adapter!.requestDevice({ requiredFeatures: subgroups ? ["subgroups"] : [] });
  });

  afterAll(() => device.destroy());

  test("takes every module", async () => {
    const modules = allModules({});
    expect(modules.length).toBeGreaterThan(300);
    expect(await refusedBy(device, modules)).toEqual([]);
  });

  test("takes those with subgroups where it knows them", async () => {
    const modules = allModules({ subgroups: true }).filter(({ code }) => code.startsWith("enable subgroups"));
    expect(modules.length).toBeGreaterThan(30);
    if (subgroups) expect(await refusedBy(device, modules)).toEqual([]);
  });
});
