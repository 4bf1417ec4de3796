// ggml's dynamic allocator on numbers: the yardstick, since our plan may never be larger than what it makes.
//
//   blocks, sorted by offset:  [ free ] [ free ] ... [ last: free without end ]
//
// An allocation goes to the smallest block that holds it, of equals to the later one; the last block is taken only when
// no other fits. Freed bytes join their neighbours.

/** Free bytes [offset, offset + size). */
@unmanaged
class Block {
  offset: f64;
  size: f64;
}

const BLOCK: usize = offsetof<Block>();

/** A free list in caller's memory: `max` highest end so far. */
@unmanaged
export class Fit {
  max: f64;
  /** addresses [blocks, end) */
  blocks: usize;
  end: usize;
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
  f.end = f.blocks + BLOCK;
  const all = changetype<Block>(f.blocks);
  all.offset = 0;
  all.size = Infinity;
  return f;
}

function removeBlock(f: Fit, b: Block): void {
  const at = changetype<usize>(b);
  f.end -= BLOCK;
  memory.copy(at, at + BLOCK, f.end - at);
}

function insertBlock(f: Fit, b: Block, offset: f64, size: f64): void {
  const at = changetype<usize>(b);
  memory.copy(at + BLOCK, at, f.end - at);
  f.end += BLOCK;
  b.offset = offset;
  b.size = size;
}

/** Offset for `size` bytes. */
export function fitAlloc(f: Fit, size: f64): f64 {
  if (size == 0) return 0;
  const last = f.end - BLOCK;
  let b = changetype<Block>(last);
  let best: f64 = Infinity;
  for (let at = f.blocks; at < last; at += BLOCK) {
    const s = changetype<Block>(at).size;
    if (s >= size && s <= best) {
      best = s;
      b = changetype<Block>(at);
    }
  }
  f.seen += f64((f.end - f.blocks) / BLOCK);
  const offset = b.offset;
  b.offset = offset + size;
  b.size -= size;
  if (b.size == 0) removeBlock(f, b);
  f.max = max(f.max, offset + size);
  return offset;
}

/** Gives [offset, offset + size) back. */
export function fitFree(f: Fit, offset: f64, size: f64): void {
  if (size == 0) return;
  let l = f.blocks;
  for (let r = f.end; l < r;) {
    const k = l + (((r - l) >> 1) & -BLOCK);
    if (changetype<Block>(k).offset < offset) l = k + BLOCK;
    else r = k;
  }
  // Block l is the first behind the freed bytes; there always is one, the last never goes.
  const next = changetype<Block>(l);
  const joinsNext = next.offset == offset + size;
  const prev = changetype<Block>(l - BLOCK);
  if (l > f.blocks && prev.offset + prev.size == offset) {
    prev.size += size;
    if (!joinsNext) return;
    prev.size += next.size;
    removeBlock(f, next);
  } else if (joinsNext) {
    next.offset = offset;
    next.size += size;
  } else insertBlock(f, next, offset, size);
}
