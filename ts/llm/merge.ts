// Joining neighbouring symbols, best pair first, until no pair can be joined: the loop of SentencePiece and of byte-pair encoding.

import { characterBytes } from "./utf8.ts";
import type { Vocab } from "./vocab.ts";

/** Says which neighbours may be joined, and how soon. */
export interface Joiner {
  /** priority of the pair that {@link join} just allowed; the higher is joined first */
  readonly priority: number;
  /**
   * Token that `text[from .. middle)` and `text[middle .. to)` make, -1 for none.
   *
   * @param left id of the first symbol, -1 when it is no token
   * @param right id of the second
   */
  join(text: Uint8Array, from: number, middle: number, to: number, left: number, right: number): number;
}

/**
 * Symbols are a doubly linked list over the bytes of a text:
 *
 *     text   h  e  l  l  o
 *     size   2  0  2  0  1       bytes of the symbol that begins here, 0 inside of one
 *     id     he    ll    o       its token, -1 = none
 *     prev   -     0     2       where the symbol before begins
 *
 * Possible pairs wait in a heap, so the time is n log n. A pair whose bytes have changed since is stale: the sizes no longer add up.
 */
export class Merger {
  readonly #joiner: Joiner;
  readonly #heap: PairHeap = new PairHeap();
  #size: Int32Array = new Int32Array(64);
  #id: Int32Array = new Int32Array(64);
  #prev: Int32Array = new Int32Array(64);
  #n = 0;

  constructor(joiner: Joiner) {
    this.#joiner = joiner;
  }

  /** Makes room for a text of `n` bytes and forgets the last one. */
  reset(n: number): void {
    this.#n = 0;
    if (n <= this.#size.length && this.#size.length <= KEEP) return;
    const capacity = 2 ** Math.ceil(Math.log2(Math.max(64, n)));
    this.#size = new Int32Array(capacity);
    this.#id = new Int32Array(capacity);
    this.#prev = new Int32Array(capacity);
    this.#heap.shrink();
  }

  /** Appends a symbol. */
  add(size: number, id: number): void {
    const at = this.#n;
    if (at === 0) this.#prev[0] = -1;
    this.#size[at] = size;
    this.#id[at] = id;
    this.#n = at + size;
    if (this.#n < this.#size.length) this.#prev[this.#n] = at;
    this.#size.fill(0, at + 1, this.#n);
  }

  /** Joins what can be joined in `text[0 .. n)`, whose symbols have been added. */
  run(text: Uint8Array): void {
    const heap = this.#heap;
    heap.clear();
    for (let at = 0; at < this.#n; at += this.#size[at]!) this.#offer(text, at);
    while (heap.pop()) {
      const left = heap.left;
      const right = left + this.#size[left]!;
      if (right === left || right >= this.#n || this.#size[left]! + this.#size[right]! !== heap.bytes)
        continue;
      this.#size[left] = heap.bytes;
      this.#id[left] = heap.id;
      this.#size[right] = 0;
      const next = left + heap.bytes;
      if (next < this.#n) this.#prev[next] = left;
      if (left > 0) this.#offer(text, this.#prev[left]!);
      this.#offer(text, left);
    }
  }

  /** Joins what can be joined in `text`, beginning with its characters. */
  runCharacters(text: Uint8Array, vocab: Vocab): void {
    this.reset(text.length);
    for (let at = 0; at < text.length;) {
      const size = characterBytes(text, at);
      this.add(size, vocab.find(text, at, at + size));
      at += size;
    }
    this.run(text);
  }

  /** Bytes of the symbol at `at`. */
  size(at: number): number {
    return this.#size[at]!;
  }

  /** Token of the symbol at `at`, -1 for none. */
  id(at: number): number {
    return this.#id[at]!;
  }

  /** Puts the symbol at `left` and its neighbour in the heap if they can be joined. */
  #offer(text: Uint8Array, left: number): void {
    const right = left + this.#size[left]!;
    if (right >= this.#n) return;
    const to = right + this.#size[right]!;
    const id = this.#joiner.join(text, left, right, to, this.#id[left]!, this.#id[right]!);
    if (id >= 0) this.#heap.push(this.#joiner.priority, left, to - left, id);
  }
}

/** Memory for texts up to this many bytes is kept for the next one. */
const KEEP = 1 << 16;

/** Binary heap of pairs in flat arrays: highest priority first, then leftmost. Pop leaves the pair in `left`, `bytes`, `id`. */
class PairHeap {
  left = 0;
  bytes = 0;
  id = 0;
  #n = 0;
  #priority = new Float64Array(64);
  #left = new Int32Array(64);
  #bytes = new Int32Array(64);
  #id = new Int32Array(64);

  clear(): void {
    this.#n = 0;
  }

  /** Gives back the memory that a long text needed. */
  shrink(): void {
    this.#n = 0;
    this.#resize(64);
  }

  push(priority: number, left: number, bytes: number, id: number): void {
    if (this.#n === this.#left.length) this.#resize(2 * this.#n);
    let i = this.#n++;
    while (i > 0) {
      const up = (i - 1) >> 1;
      if (!this.#before(priority, left, up)) break;
      this.#move(up, i);
      i = up;
    }
    this.#set(i, priority, left, bytes, id);
  }

  pop(): boolean {
    if (this.#n === 0) return false;
    this.left = this.#left[0]!;
    this.bytes = this.#bytes[0]!;
    this.id = this.#id[0]!;
    this.#sink(--this.#n);
    return true;
  }

  /** Finds the place of the last pair, which lost its own, from the root down. */
  #sink(last: number): void {
    const priority = this.#priority[last]!;
    const left = this.#left[last]!;
    let i = 0;
    for (let child = 1; child < last; child = 2 * i + 1) {
      if (child + 1 < last && this.#before(this.#priority[child + 1]!, this.#left[child + 1]!, child))
        child++;
      if (this.#before(priority, left, child)) break;
      this.#move(child, i);
      i = child;
    }
    this.#set(i, priority, left, this.#bytes[last]!, this.#id[last]!);
  }

  /** Does a pair come before the one at `i`? */
  #before(priority: number, left: number, i: number): boolean {
    const other = this.#priority[i]!;
    return priority > other || (priority === other && left < this.#left[i]!);
  }

  #move(from: number, to: number): void {
    this.#set(to, this.#priority[from]!, this.#left[from]!, this.#bytes[from]!, this.#id[from]!);
  }

  #set(i: number, priority: number, left: number, bytes: number, id: number): void {
    this.#priority[i] = priority;
    this.#left[i] = left;
    this.#bytes[i] = bytes;
    this.#id[i] = id;
  }

  #resize(n: number): void {
    this.#priority = resized(this.#priority, new Float64Array(n));
    this.#left = resized(this.#left, new Int32Array(n));
    this.#bytes = resized(this.#bytes, new Int32Array(n));
    this.#id = resized(this.#id, new Int32Array(n));
  }
}

function resized<A extends Float64Array | Int32Array>(from: A, to: A): A {
  if (from.length < to.length) to.set(from);
  return to;
}
