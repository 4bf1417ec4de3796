// Verdicts kept between processes: which kernels passed their test on an adapter. Nothing is taken from another version of
// the package, another adapter or driver, another host (its compiler is part of what was tested) or a kernel whose WGSL
// has changed; refusals are not kept, such kernels are tested again.
//
//   key     slackwater verdicts <version> <host> <adapter>
//   value   {"<kernel>": "<hash of its module>", ..}      JSON

import { builtinModule } from "../../builtin.ts";
import type { VerdictStore } from "../../runtime/backend.ts";
import { VERSION } from "../../version.ts";

/** Passed kernels and the hashes of their modules. */
export type Passed = ReadonlyMap<string, string>;

/** Where the verdicts on one adapter lie. What goes wrong there is as if nothing were kept. */
export class KeptVerdicts {
  readonly #store: VerdictStore;
  readonly #key: string;

  /** @param adapter all that is known of it and its driver */
  constructor(store: VerdictStore, adapter: string) {
    this.#store = store;
    this.#key = `slackwater verdicts ${VERSION} ${hostName()} ${adapter}`;
  }

  /** Kernels that passed in other processes. */
  async read(): Promise<Passed> {
    try {
      return parse(await this.#store.get(this.#key));
    } catch {
      return new Map();
    }
  }

  /** Adds kernels to those that passed. */
  async add(passed: Passed): Promise<void> {
    try {
      const all = new Map([...(await this.read()), ...passed]);
      await this.#store.set(this.#key, JSON.stringify(Object.fromEntries(all)));
    } catch {
      // the next process tests again
    }
  }
}

function parse(text: unknown): Passed {
  const kept: unknown = typeof text === "string" ? JSON.parse(text) : undefined;
  if (typeof kept !== "object" || kept === null) return new Map();
  return new Map(Object.entries(kept).filter((e): e is [string, string] => typeof e[1] === "string"));
}

function hostName(): string {
  const { navigator, process } = globalThis as {
    readonly navigator?: { readonly userAgent?: string };
    readonly process?: { readonly version?: string };
  };
  return `${navigator?.userAgent ?? ""} ${process?.version ?? ""}`;
}

/** Two hashes of 32 bits (FNV-1a from two starts), as text. */
export function hashOf(text: string): string {
  let [a, b] = [0x811c9dc5, 0x050c5d1f];
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    a = Math.imul(a ^ c, 0x01000193);
    b = Math.imul(b ^ c, 0x01000193) ^ (b >>> 15);
  }
  return [a, b].map((h) => (h >>> 0).toString(16).padStart(8, "0")).join("");
}

/**
 * The store that an option stands for: a file by its path (Node, Deno, Bun), one of the caller's, none for false. Without
 * an option it is the Cache API of pages and their workers, and none elsewhere.
 */
export function verdictStore(option: VerdictStore | string | false | undefined): VerdictStore | undefined {
  if (option === false) return undefined;
  if (typeof option === "string") return fileStore(option);
  return option ?? (builtinModule("node:fs") === undefined ? cacheStore() : undefined);
}

interface Files {
  readFileSync(path: string, encoding: "utf8"): string;
  writeFileSync(path: string, text: string): void;
  renameSync(from: string, to: string): void;
}

// A JSON object of keys and values; written beside and renamed, so that nobody reads half of it.
function fileStore(path: string): VerdictStore | undefined {
  const fs = builtinModule<Files>("node:fs");
  if (fs === undefined) return undefined;
  const all = (): Record<string, unknown> => {
    try {
      return Object(JSON.parse(fs.readFileSync(path, "utf8"))) as Record<string, unknown>;
    } catch {
      return {};
    }
  };
  return {
    get: (key) => {
      const kept = all()[key];
      return typeof kept === "string" ? kept : undefined;
    },
    set: (key, value) => {
      fs.writeFileSync(`${path}.new`, `${JSON.stringify({ ...all(), [key]: value }, undefined, 1)}\n`);
      fs.renameSync(`${path}.new`, path);
    },
  };
}

const CACHE = "slackwater-verdicts";

function cacheStore(): VerdictStore | undefined {
  const { caches } = globalThis as { readonly caches?: CacheStorage };
  if (caches === undefined) return undefined;
  const url = (key: string): string => `https://slackwater.invalid/${encodeURIComponent(key)}`;
  return {
    get: async (key) => (await (await caches.open(CACHE)).match(url(key)))?.text(),
    set: async (key, value) => (await caches.open(CACHE)).put(url(key), new Response(value)),
  };
}
