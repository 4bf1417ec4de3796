// Where a buffer comes to rest when it is put down at some height: the lowest offset from there on that its alignment,
// the pre-placed buffers it meets and the chunk boundaries allow.
//
//      |        |
//      |  ####  |  <- pre-placed: jumped over when the buffer does not fit below it
//   h -+--------+
//
// Plain lists have none of these, and every offset is allowed.

import { BUFFER, Buffer, bufferAt, getf, geti, pad, Plan } from "./work";

/** Lowest allowed offset of buffer `b` that is at least `v`. Monotone in v, and of its own result the result again. */
export function lowestFor(p: Plan, b: i32, v: f64): f64 {
  if (p.plain) return v;
  const size = bufferAt(p, b).size;
  const align = p.aligns ? getf(p.aligns, geti(p.id, b)) : p.align;
  v = pad(v, align);
  if (Math.floor(v / p.chunk) != Math.floor((v + size - 1) / p.chunk)) v = pad(v, p.chunk);
  return p.nFixed > 0 ? above(p, b, v, size, align) : v;
}

// The pre-placed stand behind the others, by ascending offset: one pass is enough, since what was passed lies below.
function above(p: Plan, b: i32, v: f64, size: f64, align: f64): f64 {
  const x = bufferAt(p, b);
  p.work += f64(p.nFixed);
  let at = changetype<usize>(bufferAt(p, p.n));
  for (const e = at + <usize>p.nFixed * BUFFER; at < e; at += BUFFER) {
    const f = changetype<Buffer>(at);
    if (f.off >= v + size) break;
    if (f.c0 >= x.c1 || f.c1 <= x.c0) continue;
    const end = f.off + f.size;
    if (end > v) v = pad(end, align);
  }
  return v;
}
