// Devices beside the CPU: found on demand, taken or left with a reason, opened once more after a loss.

import { DeviceError } from "../errors.ts";
import { readFusions } from "../graph/fusion.ts";
import type { OpenDevice, OpenedDevice } from "./backend.ts";
import type { EngineOptions } from "./options.ts";

/** A backend of an engine, or one that was looked at and left. */
export interface BackendInfo {
  readonly name: string;
  /** graphs may run there */
  readonly used: boolean;
  /** vendor and name of the adapter */
  readonly description?: string | undefined;
  /** why it is not used, in a sentence */
  readonly reason?: string | undefined;
  /** kernels that are not trusted, with the reason: their operators run on the CPU */
  readonly refused?: ReadonlyMap<string, string> | undefined;
  /** times the speed of the CPU, as measured; absent when nothing was measured */
  readonly speed?: number | undefined;
}

/** A device with how to open it again, or why there is none. */
export interface DeviceSearch {
  readonly opened?: OpenedDevice | undefined;
  readonly reopen?: (() => Promise<OpenedDevice>) | undefined;
  readonly info?: BackendInfo | undefined;
}

const NAME = "webgpu";

/** Imports the WebGPU backend; nothing of it is loaded before. */
export const openOnDemand: OpenDevice = async (options) => {
  const { openWebGpu } = await import("../webgpu/index.ts");
  return openWebGpu(options);
};

/** A device left, and why. */
export function left(reason: string, description?: string): DeviceSearch {
  return { info: { name: NAME, used: false, reason, description } };
}

/** Looks for a device as the options say. Never throws: what goes wrong is the reason. */
export async function findDevice(
  { device, fuse, verdicts }: EngineOptions,
  open: OpenDevice,
): Promise<DeviceSearch> {
  if (device === "cpu") return left("the CPU was asked for");
  const auto = device === undefined || device === "auto";
  try {
    if (auto && open === openOnDemand && !hasGpu()) return left(whyNoGpu());
    const common = { fusions: readFusions(fuse), verdicts };
    const opened = await open(typeof device === "object" ? { device, ...common } : common);
    if (auto && opened.software) {
      opened.backend.dispose();
      return left('a software adapter; ask for device "webgpu" to use it', opened.description);
    }
    // A device of the caller's is not ours to replace.
    return { opened, reopen: typeof device === "object" ? undefined : () => open(common) };
  } catch (error) {
    return left(reasonOf(error));
  }
}

function hasGpu(): boolean {
  const { navigator } = globalThis as { readonly navigator?: { readonly gpu?: unknown } };
  return navigator?.gpu !== undefined && navigator.gpu !== null;
}

// "auto" loads no package: one that computes in software would be no gain, and looking for it costs every start.
function whyNoGpu(): string {
  const { process } = globalThis as { readonly process?: { readonly release?: { readonly name?: string } } };
  const ways =
    process?.release?.name === "node"
      ? 'install the package "webgpu" and ask for device "webgpu", or pass a GPUDevice'
      : "pages need https; a GPUDevice can be passed";
  return `navigator.gpu is missing: ${ways}`;
}

/** What an error says, in one line. */
export function reasonOf(error: unknown): string {
  if (error instanceof DeviceError) return error.message;
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
