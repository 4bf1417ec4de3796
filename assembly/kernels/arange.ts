// ARANGE TIMESTEP_EMBEDDING: numbers made from a rule.

import { Node, paramF, paramI, rowPtr, share } from "../node";

/** Parameters: start, stop, step. */
export function arange(n: Node, ith: i32, nth: i32): void {
  const start = paramF(n, 0);
  const step = paramF(n, 2);
  for (let i = share(n.ne0, ith, nth), end = share(n.ne0, ith + 1, nth); i < end; i++) {
    store<f32>(n.data + ((<usize>i) << 2), start + step * <f32>i);
  }
}

/** Parameters: dim, longest period. [n] -> [dim, n]: cosines, then sines, at frequencies period^(-j / half). */
export function timestepEmbedding(n: Node, ith: i32, nth: i32): void {
  const t = n.src0!;
  const half = n.ne0 / 2;
  const log = Mathf.log(<f32>paramI(n, 1));
  for (let r = share(n.ne1, ith, nth), end = share(n.ne1, ith + 1, nth); r < end; r++) {
    const time = load<f32>(t.data + <usize>r * t.nb0);
    const py = rowPtr(n, r);
    const ps = py + ((<usize>half) << 2);
    for (let j = 0; j < half; j++) {
      const angle = time * Mathf.exp((-log * <f32>j) / <f32>half);
      store<f32>(py + ((<usize>j) << 2), Mathf.cos(angle));
      store<f32>(ps + ((<usize>j) << 2), Mathf.sin(angle));
    }
    if ((n.ne0 & 1) != 0) store<f32>(py + ((<usize>(n.ne0 - 1)) << 2), 0);
  }
}
