// ggml's best fit over a list, in order of birth: what an allocator that does not know the future comes to.

import { fitAlloc, fitFree, fitInit } from "./best_fit";
import { keep } from "./keys";
import { bufferAt, geti, Plan } from "./work";

// Blocks looked at per buffer, on average, before it is given up: a long list with a long free list is quadratic.
const PATIENCE: f64 = 512;

/** Keeps the plan of best fit when it is better than the best so far. */
export function onlineFit(p: Plan): void {
  const n = p.n;
  fitInit(p);
  const patience = PATIENCE * f64(n);
  let i = 0;
  for (let j = 0; j < n && p.seen < patience && p.top < p.best;) {
    const dies = geti(p.byUpper, j);
    const birth = i < n ? geti(p.lower, geti(p.id, i)) : i32.MAX_VALUE;
    if (birth < geti(p.upper, geti(p.id, dies))) {
      const b = bufferAt(p, i++);
      b.off = fitAlloc(p, b.size);
    } else {
      const b = bufferAt(p, dies);
      fitFree(p, b.off, b.size);
      j++;
    }
  }
  p.work += p.seen;
  if (i == n && p.seen < patience && p.top < p.best) keep(p, p.top);
}
