// The runtimes that the host tests run on: where each lies, how it is started, and what holds on it.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { it } from "vitest";

const MODULES = join(import.meta.dirname, "node_modules");

/** A JavaScript runtime with a command line. */
export interface Runtime {
  readonly name: string;
  readonly command: string;
  /** what comes before the script */
  readonly args: readonly string[];
  /** build of the core that it is to choose: Node 20 has no relaxed SIMD */
  readonly build: "simd" | "relaxed";
}

// A package's start script may not have run: then its binary still lies in the package of the platform.
function binary(...candidates: string[]): string {
  const paths = candidates.map((c) => join(MODULES, c));
  return paths.find((p) => existsSync(p)) ?? paths[0]!;
}

function node(major: number): Runtime {
  return { name: `Node ${major}`, command: binary(`node-${major}/bin/node`), args: [], build: "relaxed" };
}

/** This process's own Node first. */
export const RUNTIMES: readonly Runtime[] = [
  {
    name: `Node ${process.versions.node.split(".")[0]} (this one)`,
    command: process.execPath,
    args: [],
    build: Number(process.versions.node.split(".")[0]) >= 22 ? "relaxed" : "simd",
  },
  node(22),
  node(24),
  node(26),
  {
    name: "Deno",
    command: binary("@deno/linux-x64-glibc/deno", "deno/deno"),
    args: ["run", "--allow-read", "--no-prompt"],
    build: "relaxed",
  },
  {
    name: "Bun",
    command: binary("@oven/bun-linux-x64/bin/bun", "bun/bin/bun.exe"),
    args: ["run"],
    build: "relaxed",
  },
];

/** Debian's Chromium, or the one that CHROMIUM names. */
export const CHROMIUM: string = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

/** Module that drives it. */
export const PLAYWRIGHT: string = join(MODULES, "playwright-core/index.mjs");

/** Debian's Firefox ESR, or the one that FIREFOX names. */
export const FIREFOX: string = process.env["FIREFOX"] ?? "/usr/bin/firefox-esr";

/** Module that drives it. */
export const PUPPETEER: string = join(MODULES, "puppeteer-core/lib/esm/puppeteer/puppeteer-core.js");

/** `it` for a test that needs files. Without them: skipped with the reason, or run (and failed) when CI=true. */
export function itNeeds(
  paths: readonly string[],
  title: string,
  body: () => Promise<void>,
  timeout: number,
): void {
  const missing = paths.find((p) => !existsSync(p));
  if (missing === undefined || process.env["CI"] === "true") return it(title, body, timeout);
  it.skip(`${title} (needs ${missing})`, body);
}
