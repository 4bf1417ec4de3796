// Tests that need a GPU adapter, and what happens where there is none.
import { describe, expect, test } from "vitest";
import { testGpu } from "./gpu_host.ts";

/** `describe` for tests that need an adapter. Without one: skipped with the reason, or failed when CI=true. */
export async function describeGpu(title: string, body: () => void): Promise<void> {
  if ((await testGpu()) !== undefined) return void describe(title, body);
  if (process.env.CI === "true") return void test(title, () => expect.fail("there is no WebGPU adapter"));
  test.skip(`${title} (needs tests/hosts installed, libvulkan1 and a Vulkan driver)`, () => {});
}
