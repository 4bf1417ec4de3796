// ggml's dynamic allocator on numbers: the yardstick, since our plan may never be larger than what it makes.
//
//   blocks, sorted by offset:  [ free ] [ free ] ... [ last: free without end ]
//
// An allocation goes to the smallest block that holds it, of equals to the later one; the last block is taken only when
// no other fits. Freed bytes join their neighbours. State: p.blocks .. p.end, p.top, p.seen.

import { Plan } from "./work";

/** Free bytes [offset, offset + size). */
@unmanaged
class Block {
  offset: f64;
  size: f64;
}

const BLOCK: usize = offsetof<Block>();

/** Everything is free. */
export function fitInit(p: Plan): void {
  const all = changetype<Block>(p.blocks);
  memory.fill(changetype<usize>(all), 0, BLOCK);
  all.size = Infinity;
  p.end = p.blocks + BLOCK;
  memory.fill(changetype<usize>(p) + offsetof<Plan>("top"), 0, 16); // and seen
}

// Moves the blocks from `at` on by `by` bytes.
function shift(p: Plan, at: usize, by: isize): void {
  memory.copy(at + by, at, p.end - at);
  p.end += by;
}

/** Offset for `size` bytes. */
export function fitAlloc(p: Plan, size: f64): f64 {
  if (size == 0) return 0;
  const last = p.end - BLOCK;
  let b = changetype<Block>(last);
  let best: f64 = Infinity;
  for (let at = p.blocks; at < last; at += BLOCK) {
    const s = changetype<Block>(at).size;
    if (s >= size && s <= best) {
      best = s;
      b = changetype<Block>(at);
    }
  }
  p.seen += f64((p.end - p.blocks) / BLOCK);
  const offset = b.offset;
  b.offset = offset + size;
  b.size -= size;
  if (b.size == 0) shift(p, changetype<usize>(b) + BLOCK, -BLOCK);
  p.top = max(p.top, offset + size);
  return offset;
}

/** Gives [offset, offset + size) back. */
export function fitFree(p: Plan, offset: f64, size: f64): void {
  if (size == 0) return;
  let l = p.blocks;
  for (let r = p.end; l < r;) {
    const k = l + (((r - l) >> 1) & -BLOCK);
    if (changetype<Block>(k).offset < offset) l = k + BLOCK;
    else r = k;
  }
  // Block l is the first behind the freed bytes; there always is one, the last never goes.
  const next = changetype<Block>(l);
  const joinsNext = next.offset == offset + size;
  const prev = changetype<Block>(l - BLOCK);
  if (l > p.blocks && prev.offset + prev.size == offset) {
    prev.size += size;
    if (!joinsNext) return;
    prev.size += next.size;
    shift(p, l + BLOCK, -BLOCK);
    return;
  }
  if (joinsNext) size += next.size;
  else shift(p, l, BLOCK);
  next.offset = offset;
  next.size = size;
}
