// What every device offers, for kernels that are asked without one.
import type { Caps } from "../ts/webgpu/kernel.ts";

/** The least that a device may offer. */
export const LEAST: Caps = {
  f16: false,
  subgroups: false,
  subgroupMin: 1,
  subgroupMax: 1,
  dot4: false,
  maxBinding: 2 ** 27,
  maxInvocations: 256,
  maxWorkgroupBytes: 16384,
};
