// Runs the splits of a graph one after the other, with the copies between them.
//
// What a device has computed is fetched into a block of JavaScript memory first: linear memory may grow while the device
// is waited for. All copies before a split are under way together, so that they cost one wait.

import type { Memory, Tensor } from "../../graph/tensor.ts";
import type { Buffer, Executable } from "../backend.ts";
import type { Copy, Split } from "./splits.ts";

// A copy with its places.
interface Move {
  readonly from: Memory;
  readonly fromOffset: number;
  readonly to: Memory;
  readonly toOffset: number;
  readonly nBytes: number;
  /** where it waits for its turn; undefined when the source is host memory */
  readonly block: Uint8Array | undefined;
}

/** Copies between backends; ready to be made again and again. */
class Moves {
  readonly #moves: readonly Move[];
  readonly #pending: Promise<void>[];

  constructor(copies: readonly Copy[]) {
    const blocks = new Uint8Array(
      copies.reduce((sum, { from }) => sum + (onHost(from) ? 0 : from.nBytes), 0),
    );
    let at = 0;
    this.#moves = copies.map(({ from, to }) => {
      const block = onHost(from) ? undefined : blocks.subarray(at, (at += from.nBytes));
      const [a, b] = [from.placement!, to.placement!];
      return {
        from: a.memory,
        fromOffset: a.offset,
        to: b.memory,
        toOffset: b.offset,
        nBytes: from.nBytes,
        block,
      };
    });
    this.#pending = [];
  }

  async make(): Promise<void> {
    this.#pending.length = 0;
    for (const { from, fromOffset, block } of this.#moves) {
      if (block !== undefined) this.#pending.push(from.readInto(fromOffset, block));
    }
    if (this.#pending.length > 0) await Promise.all(this.#pending);
    for (const { from, fromOffset, to, toOffset, nBytes, block } of this.#moves) {
      to.write(toOffset, block ?? (from as Buffer).view!(fromOffset, nBytes));
    }
  }
}

function onHost(t: Tensor): boolean {
  return (t.placement!.memory as Buffer).view !== undefined;
}

interface Step {
  readonly moves: Moves | undefined;
  readonly executable: Executable;
  /** nodes */
  readonly n: number;
}

/** Splits with their executables. Ranges count the nodes of all splits, copies not among them. */
export class MixedExecutable implements Executable {
  readonly #steps: readonly Step[];

  constructor(splits: readonly Split[], executables: readonly Executable[]) {
    this.#steps = splits.map(({ copies, program }, i) => ({
      moves: copies.length === 0 ? undefined : new Moves(copies),
      executable: executables[i]!,
      n: program.nodes.length,
    }));
  }

  async run(signal?: AbortSignal, first = 0, last = Infinity): Promise<void> {
    let at = 0;
    for (const { moves, executable, n } of this.#steps) {
      const from = Math.max(first - at, 0);
      const to = Math.min(last - at, n);
      at += n;
      if (from >= to) continue;
      signal?.throwIfAborted();
      if (from === 0 && moves !== undefined) await moves.make();
      await executable.run(signal, from, to);
    }
  }

  dispose(): void {
    for (const { executable } of this.#steps) executable.dispose();
  }
}
