// What a user downloads, raw, gzip and brotli: `npm run size`. Ours from dist/ (npm run build first), peers as
// published; and how much of the core is the planner.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { report, versionOf } from "./measure.ts";

const ROOT = join(import.meta.dirname, "../..");
const PEERS = join(import.meta.dirname, "../node_modules");

/** An entry of dist/ and all chunks that it imports. */
function closure(folder: string, entry: string, seen = new Set<string>()): Set<string> {
  if (seen.has(entry) || !existsSync(join(folder, entry))) return seen;
  seen.add(entry);
  const text = readFileSync(join(folder, entry), "utf8");
  for (const [, path] of text.matchAll(/(?:from|import)\s*\(?"\.\/([^"]+\.js)"/g))
    closure(folder, path!, seen);
  return seen;
}

function rowOf(name: string, folder: string, files: Iterable<string>): object | undefined {
  const parts = [...files].map((f) => join(folder, f)).filter((f) => existsSync(f));
  if (parts.length === 0) return undefined;
  const bytes = parts.map((f) => readFileSync(f));
  const sum = (f: (b: Buffer) => number): number => bytes.reduce((n, b) => n + f(b), 0);
  return {
    what: name,
    files: parts.length,
    raw: sum((b) => b.length),
    gzip: sum((b) => gzipSync(b, { level: 9 }).length),
    brotli: sum((b) => brotliCompressSync(b).length),
  };
}

const dist = join(ROOT, "dist");
const packageBytes = readdirSync(dist, { recursive: true, withFileTypes: true })
  .filter((e) => e.isFile())
  .reduce((n, e) => n + readFileSync(join(e.parentPath, e.name)).length, 0);
const rows = [
  rowOf("slackwater (engine)", dist, closure(dist, "index.js")),
  rowOf("slackwater/llm", dist, closure(dist, "llm.js")),
  rowOf("wllama", join(PEERS, "@wllama/wllama/esm"), ["index.min.js", "wasm/wllama.wasm"]),
  rowOf("onnxruntime-web (wasm)", join(PEERS, "onnxruntime-web/dist"), [
    "ort.wasm.min.mjs",
    "ort-wasm-simd-threaded.mjs",
    "ort-wasm-simd-threaded.wasm",
  ]),
  rowOf("tfjs core + wasm", join(PEERS, "@tensorflow"), [
    "tfjs-core/dist/tf-core.min.js",
    "tfjs-backend-wasm/dist/tf-backend-wasm.min.js",
    "tfjs-backend-wasm/wasm-out/tfjs-backend-wasm-simd.wasm",
  ]),
].filter((row) => row !== undefined);
const versions = ["@wllama/wllama", "onnxruntime-web", "@tensorflow/tfjs-core"].map((n) => [n, versionOf(n)]);
// Builds the core once more, without the planner's exports: needs build/simd.wasm, as npm run build leaves it.
const planner = execFileSync(process.execPath, [".ci/package/planner_size.mjs"], {
  cwd: ROOT,
  encoding: "utf8",
});
report("size", rows, {
  peers: Object.fromEntries(versions),
  distBytes: packageBytes,
  plannerBytes: (JSON.parse(planner) as { planner: number }).planner,
});
