// Bytes that the planner adds to the core: the core as it is, less one built without the planner's exports, the rest alike.
//
//   node .ci/package/planner_size.mjs     prints both as JSON; fails above LIMIT. From the root, after npm run build:wasm
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { main } from "assemblyscript/asc";

const LIMIT = 14_000;
const INDEX = "assembly/index.ts";

/** The list of exports without the planner's. */
function without(index) {
  const names = [...index.matchAll(/^import \{ (.+) \} from "\.\/plan\/.*";\n/gm)];
  if (names.length === 0) throw new Error(`${INDEX}: imports nothing from ./plan/`);
  const exports = `export { ${names.map((m) => m[1]).join(", ")} };\n`;
  if (!index.includes(exports)) throw new Error(`${INDEX}: expected the line ${exports}`);
  return names.reduce((text, [line]) => text.replace(line, ""), index.replace(exports, ""));
}

const core = (await readFile("build/simd.wasm")).length;
let rest = 0;
const { error, stderr } = await main(["--config", "asconfig.json", "--target", "simd"], {
  readFile: async (name, base) => {
    const text = await readFile(join(base, name), "utf8").catch(() => null);
    return name === INDEX ? without(text) : text;
  },
  writeFile: (name, bytes) => {
    if (name.endsWith(".wasm")) rest = bytes.length;
  },
});
if (error) throw new Error(`${error.message}\n${stderr}`);
const planner = core - rest;
console.log(JSON.stringify({ core, planner }));
if (!(planner > 0 && planner <= LIMIT)) throw new Error(`the planner has ${planner} bytes, at most ${LIMIT}`);
