// WebGPU for tests outside browsers: Deno's own, in Node the package "webgpu" on the software Vulkan that comes with Debian's Chromium.
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json";
const PACKAGE = resolve("tests/hosts/node_modules/webgpu/index.js");

let entry: Promise<GPU | undefined> | undefined;

/** The entry point; undefined where the package or an adapter is missing. The process keeps it. */
export function testGpu(): Promise<GPU | undefined> {
  entry ??= open();
  return entry;
}

async function open(): Promise<GPU | undefined> {
  const { gpu: own } = (globalThis.navigator ?? {}) as { readonly gpu?: GPU };
  if (own !== undefined) return (await own.requestAdapter()) === null ? undefined : own;
  if (!existsSync(PACKAGE)) return undefined;
  // read by the driver's loader when the package starts
  if (existsSync(SWIFTSHADER)) process.env.VK_ICD_FILENAMES ??= SWIFTSHADER;
  process.env.XDG_RUNTIME_DIR ??= "/tmp";
  const { create } = (await import(pathToFileURL(PACKAGE).href)) as { create(flags: readonly string[]): GPU };
  const gpu = create([]);
  return (await gpu.requestAdapter()) === null ? undefined : gpu;
}
