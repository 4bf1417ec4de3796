// Puts weights in quads (assembly/quants/quads.ts): in place, or on their way from a file to their place.

import { Flag, Region } from "../../assembly/abi.ts";
import type { Tensor } from "../graph/tensor.ts";
import { nrows } from "../shape.ts";
import type { Arena } from "./arena.ts";
import type { Exports } from "./wasm.ts";

/** Bytes of a window: what was read into it is in the caches when it is laid out. */
const WINDOW = 2 ** 20;
/** Rows of a pair of quads. */
const PAIR_ROWS = 8;
/** Bytes behind a window, for the pass over it. */
const BEHIND = 256;

/** Address of a leaf in linear memory. */
export type AddressOf = (t: Tensor) => number;

/**
 * Interleaves the rows of these leafs, eight by eight, in place, and flags them. Leafs whose rows or scales do not allow it
 * stay in file order.
 *
 * @throws {DeviceError} out-of-memory when eight rows more do not fit
 */
export function toQuads(arena: Arena, core: Exports, leafs: readonly Tensor[], addressOf: AddressOf): void {
  const rowBytes = longestRow(leafs);
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

function longestRow(leafs: readonly Tensor[]): number {
  return leafs.reduce((most, t) => Math.max(most, t.nb[1]), 0);
}

/** Some rows of a leaf on their way into quads. */
export interface QuadPiece {
  readonly bytes: Uint8Array;
  /** The bytes are there. @returns what lays them out, to be called before the piece after the next is asked for */
  commit(): () => void;
}

/**
 * Two windows through which leafs get into quads while a file is read: one is filled while the other is laid out. So the
 * pass reads from the caches, and goes over the memory of the leafs once.
 *
 *   | window 0 | 256 | window 1 | 256 |
 */
export class QuadWindows {
  /** bytes that the windows take of the arena */
  readonly nBytes: number;
  readonly #arena: Arena;
  readonly #core: Exports;
  readonly #addressOf: AddressOf;
  /** bytes of a window */
  readonly #size: number;
  readonly #start: number;
  /** leafs with a scale that cannot be lifted: they stay in file order */
  readonly #plain = new Set<Tensor>();
  #turn = 0;
  #freed: boolean;

  /**
   * @param leafs those that may come
   * @param room bytes that the windows should take at most; eight rows each they take in any case
   * @throws {DeviceError} out-of-memory
   */
  constructor(arena: Arena, core: Exports, leafs: readonly Tensor[], room: number, addressOf: AddressOf) {
    const pair = PAIR_ROWS * longestRow(leafs);
    this.#arena = arena;
    this.#core = core;
    this.#addressOf = addressOf;
    this.#size = Math.max(pair, Math.min(WINDOW, Math.floor(room / 2) - BEHIND));
    this.#freed = pair === 0;
    this.nBytes = pair === 0 ? 0 : arena.regionBytes(2 * (this.#size + BEHIND));
    this.#start = pair === 0 ? 0 : arena.alloc(this.nBytes, Region.SCRATCH);
  }

  /** A window for the rows of a leaf from byte `done` on: whole pairs of quads, at most `nBytes` unless eight rows are more. */
  piece(t: Tensor, done: number, nBytes: number): QuadPiece {
    const pair = PAIR_ROWS * t.nb[1];
    const n = pair * Math.max(1, Math.floor(Math.min(this.#size, nBytes) / pair));
    const from = this.#start + this.#turn * (this.#size + BEHIND);
    this.#turn = 1 - this.#turn;
    const arena = this.#arena;
    return {
      // memory may grow while the piece is being filled
      get bytes() {
        return arena.u8.subarray(from, from + n);
      },
      commit: () => () => this.#lay(t, done, from, n),
    };
  }

  /** All rows of a leaf are laid out: it is flagged, unless it stays in file order. */
  whole(t: Tensor): void {
    if (!this.#plain.delete(t)) t.flags |= Flag.QUADS;
  }

  #lay(t: Tensor, done: number, from: number, nBytes: number): void {
    const rowBytes = t.nb[1];
    const at = this.#addressOf(t);
    const wasPlain = this.#plain.has(t);
    const behind = from + this.#size;
    if (!wasPlain && this.#core.toQuadsFrom(t.type, from, at + done, rowBytes, nBytes / rowBytes, behind))
      return;
    this.#arena.u8.copyWithin(at + done, from, from + nBytes);
    if (wasPlain) return;
    this.#plain.add(t);
    // The rows before go back to file order; the window is free now.
    this.#core.fromQuads(t.type, at, rowBytes, done / rowBytes, from);
  }

  /** Gives the windows back. May be called twice. */
  free(): void {
    if (this.#freed) return;
    this.#freed = true;
    this.#arena.free(this.#start);
  }
}
