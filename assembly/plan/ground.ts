// Where a buffer comes to rest when it is put down at some height: the lowest offset from there on that its alignment,
// the pre-placed buffers it meets and the chunk boundaries allow.
//
//      |        |
//      |  ####  |  <- pre-placed: jumped over when the buffer does not fit below it
//   h -+--------+
//
// Plain lists have none of these, and every offset is allowed.

import { getf, geti, pad, Plan } from "./work";

/** Lowest allowed offset of buffer `b` that is at least `v`. Monotone in v, and of its own result the result again. */
export function lowestFor(p: Plan, b: i32, v: f64): f64 {
  if (p.plain) return v;
  const size = getf(p.size, b);
  const align = p.aligns ? getf(p.aligns, geti(p.id, b)) : p.align;
  v = pad(v, align);
  if (Math.floor(v / p.chunk) != Math.floor((v + size - 1) / p.chunk)) v = pad(v, p.chunk);
  return p.nFixed > 0 ? above(p, b, v, size, align) : v;
}

// The pre-placed stand behind the others, by ascending offset: one pass is enough, since what was passed lies below.
function above(p: Plan, b: i32, v: f64, size: f64, align: f64): f64 {
  const from = geti(p.c0, b);
  const to = geti(p.c1, b);
  p.work += f64(p.nFixed);
  for (let f = p.n, e = p.n + p.nFixed; f < e; f++) {
    const at = getf(p.offset, geti(p.id, f));
    if (at >= v + size) break;
    if (geti(p.c0, f) >= to || geti(p.c1, f) <= from) continue;
    const end = at + getf(p.size, f);
    if (end > v) v = pad(end, align);
  }
  return v;
}
