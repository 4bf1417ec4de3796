// Vectors of 256 bits: V8 can pack operations on neighbouring vectors of 128 bits into one, lane by lane, with the same bits.

import { builtinModule } from "../builtin.ts";

/** Bits of the vectors that kernels are shaped for. */
export type VectorBits = 128 | 256;

/** What is asked of a host's process. */
export interface HostProcess {
  readonly arch: string;
  readonly versions: { readonly v8?: string; readonly bun?: string; readonly deno?: string };
}

interface V8 {
  setFlagsFromString(flags: string): void;
}

/** V8's pass, which is marked experimental and off by default. */
const REVECTORIZE = "--experimental-wasm-revectorize";
/** V8 13.6 packs too, but got sums of minima wrong (docs/decisions/0026-quads-in-pairs.md). */
const FIRST_MAJOR = 14;
/** Versions of V8 with which all kernels were compared, bit by bit and in both builds (tests/hosts.test.ts). */
const COMPARED: readonly string[] = ["14.6"];

/**
 * Turns the pass on, for the whole process, where this is Node or Electron on x64 with a V8 that packs the relaxed dot rightly; code
 * compiled before stays as it is. In a browser nothing is known: whoever asks has started it with the flag.
 *
 * @returns the bits that can be expected
 */
export function widenVectors(host: HostProcess | undefined = hostProcess()): VectorBits {
  if (host === undefined) return 256;
  if (!packs(host) || Number.parseInt(host.versions.v8 ?? "0", 10) < FIRST_MAJOR) return 128;
  builtinModule<V8>("node:v8")?.setFlagsFromString(REVECTORIZE);
  return 256;
}

/** 256 where this version of V8 was compared: for programs to whom their process belongs. */
export function comparedVectors(host: HostProcess | undefined = hostProcess()): VectorBits {
  if (host === undefined || !packs(host)) return 128;
  return COMPARED.some((version) => host.versions.v8?.startsWith(`${version}.`)) ? 256 : 128;
}

function hostProcess(): HostProcess | undefined {
  return builtinModule<HostProcess>("node:process");
}

// Deno's V8 is built without the pass, Bun has another engine.
function packs({ arch, versions }: HostProcess): boolean {
  return arch === "x64" && versions.bun === undefined && versions.deno === undefined;
}
