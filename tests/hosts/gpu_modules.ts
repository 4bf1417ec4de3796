// In Deno: has its compiler judge every shader module. The last line is { modules, refused } as JSON.
import { allModules, refusedBy } from "../gpu_modules.ts";

const adapter = await navigator.gpu.requestAdapter();
const device = await adapter!.requestDevice();
const modules = allModules(false);
console.log(JSON.stringify({ modules: modules.length, refused: await refusedBy(device, modules) }));
