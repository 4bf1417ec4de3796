// The two builds of the core as bundles hold them: cut into pieces that alternate, and deflated as one.
//
//   u32 bytes of simd, u32 bytes of relaxed, then PIECES times: a piece of simd, a piece of relaxed
//
// The builds are much alike. Alternating pieces bring like bytes within the 32 KiB that deflate looks back.

import inside from "../../build/cores.deflate";
import type { CoreBuild } from "./cores.ts";
import { inflate } from "./inflate.ts";

const PIECES = 32;
const BUILDS: readonly CoreBuild[] = ["simd", "relaxed"];

// The script of the model worker has none inside: it is given them.
let packed = inside;
let unpacked: Promise<Readonly<Record<CoreBuild, Uint8Array<ArrayBuffer>>>> | undefined;

/** See cores.ts. */
export async function coreBytes(build: CoreBuild): Promise<Uint8Array<ArrayBuffer>> {
  unpacked ??= inflate(packed).then(unpack);
  return (await unpacked)[build];
}

/** See cores.ts. */
export function packedCores(): Uint8Array<ArrayBuffer> | undefined {
  return packed;
}

/** See cores.ts. */
export function takeCores(given: Uint8Array<ArrayBuffer> | undefined): void {
  if (packed.length === 0 && given !== undefined) packed = given;
}

function unpack(bytes: Uint8Array<ArrayBuffer>): Record<CoreBuild, Uint8Array<ArrayBuffer>> {
  const sizes = new DataView(bytes.buffer);
  const cores = BUILDS.map((_, i) => new Uint8Array(sizes.getUint32(4 * i, true)));
  let at = 4 * BUILDS.length;
  for (let piece = 0; piece < PIECES; piece++) {
    for (const core of cores) {
      const [from, to] = [cut(core, piece), cut(core, piece + 1)];
      core.set(bytes.subarray(at, at + to - from), from);
      at += to - from;
    }
  }
  return { simd: cores[0]!, relaxed: cores[1]! };
}

// Where a piece begins.
function cut(core: Uint8Array, piece: number): number {
  return Math.floor((piece * core.length) / PIECES);
}
