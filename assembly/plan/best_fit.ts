// ggml's dynamic allocator on numbers: the yardstick, since our plan may never be larger than what it makes.
//
//   blocks, sorted by offset:  [ free ] [ free ] ... [ last: free without end ]
//
// An allocation goes to the smallest block that holds it, of equals to the later one; the last block is taken only when
// no other fits. Freed bytes join their neighbours.

import { getf, putf } from "./work";

/** A free list in caller's memory: `max` highest end so far, `count` blocks of {offset, size} f64 pairs at `blocks`. */
@unmanaged
export class Fit {
  max: f64;
  blocks: usize;
  count: i32;
  /** blocks looked at, for callers that limit their work */
  seen: f64;
}

/** Bytes of a Fit for `n` buffers: at most n + 1 blocks. */
export function fitBytes(n: i32): usize {
  return offsetof<Fit>() + 8 + ((<usize>n + 2) << 4);
}

/** Lays an empty free list at `at`. */
export function fitInit(at: usize): Fit {
  const f = changetype<Fit>(at);
  f.max = 0;
  f.seen = 0;
  f.blocks = (at + offsetof<Fit>() + 7) & ~7;
  f.count = 1;
  putf(f.blocks, 0, 0);
  putf(f.blocks, 1, Infinity);
  return f;
}

function removeBlock(f: Fit, i: i32): void {
  const p = f.blocks + ((<usize>i) << 4);
  f.count--;
  memory.copy(p, p + 16, (<usize>(f.count - i)) << 4);
}

function insertBlock(f: Fit, i: i32, offset: f64, size: f64): void {
  const p = f.blocks + ((<usize>i) << 4);
  memory.copy(p + 16, p, (<usize>(f.count - i)) << 4);
  f.count++;
  store<f64>(p, offset);
  store<f64>(p, size, 8);
}

/** Offset for `size` bytes. */
export function fitAlloc(f: Fit, size: f64): f64 {
  if (size == 0) return 0;
  const last = f.count - 1;
  const blocks = f.blocks;
  let at = last;
  let best: f64 = Infinity;
  for (let i = 0; i < last; i++) {
    const s = getf(blocks, 2 * i + 1);
    if (s >= size && s <= best) {
      best = s;
      at = i;
    }
  }
  f.seen += f64(f.count);
  const offset = getf(blocks, 2 * at);
  putf(blocks, 2 * at, offset + size);
  putf(blocks, 2 * at + 1, getf(blocks, 2 * at + 1) - size);
  if (getf(blocks, 2 * at + 1) == 0) removeBlock(f, at);
  f.max = max(f.max, offset + size);
  return offset;
}

/** Gives [offset, offset + size) back. */
export function fitFree(f: Fit, offset: f64, size: f64): void {
  if (size == 0) return;
  const blocks = f.blocks;
  let l = 0;
  for (let r = f.count; l < r;) {
    const k = (l + r) >> 1;
    if (getf(blocks, 2 * k) < offset) l = k + 1;
    else r = k;
  }
  // Block l is the first behind the freed bytes; there always is one, the last never goes.
  const joinsNext = getf(blocks, 2 * l) == offset + size;
  const prev = l - 1;
  const joinsPrev = l > 0 && getf(blocks, 2 * prev) + getf(blocks, 2 * prev + 1) == offset;
  if (joinsPrev) {
    const more = joinsNext ? size + getf(blocks, 2 * l + 1) : size;
    putf(blocks, 2 * prev + 1, getf(blocks, 2 * prev + 1) + more);
    if (joinsNext) removeBlock(f, l);
  } else if (joinsNext) {
    putf(blocks, 2 * l, offset);
    putf(blocks, 2 * l + 1, getf(blocks, 2 * l + 1) + size);
  } else insertBlock(f, l, offset, size);
}
