// In Deno: has its compiler judge every shader module, with and without f16, and compares the kernels that use it with
// double precision. The last line is { modules, withF16, refused, halves } as JSON.
import { halves } from "../gpu_f16.ts";
import { allModules, refusedBy } from "../gpu_modules.ts";

const adapter = await navigator.gpu.requestAdapter();
const device = await adapter!.requestDevice({ requiredFeatures: ["shader-f16"] });
const plain = allModules({ f16: false });
const withF16 = allModules({ f16: true }).filter(({ code }) => code.includes("enable f16"));
const refused = await refusedBy(device, [...plain, ...withF16]);
device.destroy();
const said = { modules: plain.length, withF16: withF16.length, refused, halves: await halves() };
console.log(JSON.stringify(said));
