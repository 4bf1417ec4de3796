// Puts weights in quads, in place (assembly/quants/quads.ts).

import { Flag, Region } from "../../assembly/abi.ts";
import type { Tensor } from "../graph/tensor.ts";
import { nrows } from "../shape.ts";
import type { Arena } from "./arena.ts";
import type { Exports } from "./wasm.ts";

const WARM_ROWS = 64;
const WARM_MS = 8;

/**
 * Runs the pass over the first rows of a leaf whose data is still to come, for some milliseconds: what has run for a while
 * is compiled better by the time it is called again, and one call for a large matrix is long. The leaf's bytes are noise
 * afterwards.
 *
 * @throws {DeviceError} out-of-memory when four rows more do not fit
 */
export function warmQuads(arena: Arena, core: Exports, t: Tensor, address: number): void {
  const rows = Math.min(WARM_ROWS, nrows(t.ne));
  const scratch = arena.alloc(core.quadScratch(t.nb[1]) >>> 0, Region.SCRATCH);
  try {
    for (const end = performance.now() + WARM_MS; performance.now() < end;) {
      if (!core.toQuads(t.type, address, t.nb[1], rows, scratch)) return;
    }
  } finally {
    arena.free(scratch);
  }
}

/**
 * Interleaves the rows of these leafs by fours, in place, and flags them. Leafs whose rows or scales do not allow it
 * stay in file order. `addressOf` gives the address in linear memory.
 *
 * @throws {DeviceError} out-of-memory when four rows more do not fit
 */
export function toQuads(
  arena: Arena,
  core: Exports,
  leafs: readonly Tensor[],
  addressOf: (t: Tensor) => number,
): void {
  const rowBytes = Math.max(0, ...leafs.map((t) => t.nb[1]));
  if (rowBytes === 0) return;
  const scratch = arena.alloc(core.quadScratch(rowBytes) >>> 0, Region.SCRATCH);
  try {
    for (const t of leafs) {
      if (core.toQuads(t.type, addressOf(t), t.nb[1], nrows(t.ne), scratch)) t.flags |= Flag.QUADS;
    }
  } finally {
    arena.free(scratch);
  }
}
