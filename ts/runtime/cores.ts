// The two builds of the core that lie inside the package, as bytes. Bundles for npm hold packed_cores.ts in its place.

import relaxed from "../../build/relaxed.wasm";
import simd from "../../build/simd.wasm";

/** Name of a build of the core. */
export type CoreBuild = "simd" | "relaxed";

/** The bytes of a build; not to be written to. */
export async function coreBytes(build: CoreBuild): Promise<Uint8Array<ArrayBuffer>> {
  return build === "simd" ? simd : relaxed;
}

/** Both builds as a worker's script without any needs them; undefined when they are not packed. */
export function packedCores(): Uint8Array<ArrayBuffer> | undefined {
  return undefined;
}

/** Gives this script the builds that it lacks. */
export function takeCores(_packed: Uint8Array<ArrayBuffer> | undefined): void {}
