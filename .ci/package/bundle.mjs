// Makes the JavaScript in dist/ from ts/ and from the wasm in build/.
import { readFileSync, writeFileSync } from "node:fs";
import { deflateRawSync } from "node:zlib";
import { build } from "esbuild";

const PIECES = 32; // as in ts/runtime/packed_cores.ts

/** Modules of ts/runtime that bundles hold another one for, by name. */
const inPlaceOf = (others) => ({
  name: "in-place-of",
  setup({ onResolve, resolve }) {
    onResolve({ filter: /\/(cores|model_worker)\.ts$/ }, async ({ path, pluginData, ...where }) => {
      const name = path.split("/").at(-1);
      if (pluginData === "replaced" || others[name] === undefined) return undefined;
      const other = path.slice(0, -name.length) + others[name];
      return resolve(other, { ...where, pluginData: "replaced" });
    });
  },
});

/** The same file without a byte. */
const empty = (filter) => ({
  name: "empty",
  setup({ onLoad }) {
    onLoad({ filter }, () => ({ contents: "", loader: "binary" }));
  },
});

const common = {
  bundle: true,
  minify: true,
  target: "es2022",
  platform: "neutral",
  external: ["node:*"],
  loader: { ".deflate": "binary", ".txt": "text" },
  logLevel: "warning",
};

/** Both cores as packed_cores.ts unpacks them. */
function packCores() {
  const cores = ["simd", "relaxed"].map((name) => readFileSync(`build/${name}.wasm`));
  const sizes = Buffer.alloc(8);
  cores.forEach((core, i) => sizes.writeUInt32LE(core.length, 4 * i));
  const pieces = [sizes];
  for (let i = 0; i < PIECES; i++) {
    const cut = (core, at) => Math.floor((at * core.length) / PIECES);
    for (const core of cores) pieces.push(core.subarray(cut(core, i), cut(core, i + 1)));
  }
  writeFileSync("build/cores.deflate", deflateRawSync(Buffer.concat(pieces), { level: 9 }));
}

/** The script of the model worker: a bundle without the cores, which it is given. */
async function packModelWorker() {
  const { outputFiles } = await build({
    ...common,
    entryPoints: ["ts/llm/remote/worker_main.ts"],
    format: "iife",
    write: false,
    plugins: [inPlaceOf({ "cores.ts": "packed_cores.ts" }), empty(/\/cores\.deflate$/)],
  });
  writeFileSync("build/model_worker.deflate", deflateRawSync(outputFiles[0].contents, { level: 9 }));
}

/** Entries of the package. */
function modules() {
  return build({
    ...common,
    entryPoints: {
      index: "ts/index.ts",
      llm: "ts/llm/index.ts",
      gguf: "ts/gguf/index.ts",
      plan: "ts/plan.ts",
      cli: "ts/cli/cli.ts",
    },
    splitting: true,
    format: "esm",
    outdir: "dist",
    plugins: [inPlaceOf({ "cores.ts": "packed_cores.ts", "model_worker.ts": "packed_model_worker.ts" })],
  });
}

/** The script tag's file: one function, whose text is the worker's script too. */
function script() {
  return build({
    ...common,
    entryPoints: ["ts/global.ts"],
    format: "iife",
    globalName: "exported",
    banner: { js: "var slackwater=(function slackwaterFile(){" },
    footer: { js: "return exported})();" },
    outfile: "dist/slackwater.global.js",
    plugins: [inPlaceOf({ "cores.ts": "packed_cores.ts", "model_worker.ts": "script_model_worker.ts" })],
  });
}

packCores();
await packModelWorker();
await Promise.all([modules(), script()]);
