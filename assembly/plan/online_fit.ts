// ggml's best fit over a list, in order of birth: what an allocator that does not know the future comes to.

import { fitAlloc, fitBytes, fitFree, fitInit } from "./best_fit";
import { keep } from "./keys";
import { sortBytes, sortIds } from "./sections";
import { bufferAt, geti, Plan, take } from "./work";

// Blocks looked at per buffer, on average, before it is given up: a long list with a long free list is quadratic.
const PATIENCE: f64 = 512;

/** Bytes for `n` buffers. */
export function onlineFitBytes(n: i32): usize {
  return sortBytes(n) + fitBytes(n);
}

/** Keeps the plan of best fit when it is better than the best so far. */
export function onlineFit(p: Plan): void {
  const n = p.n;
  const mark = p.top;
  const byUpper = sortIds(p, p.upper);
  const f = fitInit(take(p, fitBytes(n)));
  const patience = PATIENCE * f64(n);
  let i = 0;
  for (let j = 0; j < n && f.seen < patience && f.max < p.best;) {
    const dies = geti(byUpper, j);
    const birth = i < n ? geti(p.lower, geti(p.id, i)) : i32.MAX_VALUE;
    if (birth < geti(p.upper, geti(p.id, dies))) {
      const b = bufferAt(p, i++);
      b.off = fitAlloc(f, b.size);
    } else {
      const b = bufferAt(p, dies);
      fitFree(f, b.off, b.size);
      j++;
    }
  }
  p.top = mark;
  p.work += f.seen;
  if (i == n && f.seen < patience && f.max < p.best) keep(p, f.max);
}
