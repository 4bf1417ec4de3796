// SSM_CONV: y[c, t, s] = sum over k of x[t + k, c, s] kernel[k, c]; f32, any strides.

import { Node, rowAt, rowPtr, share } from "../node";

/** Threads split the result's rows (t, s). */
export function ssmConv(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const kernel = n.src1!;
  const rows = n.ne1 * n.ne2;
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const py = rowPtr(n, r);
    const shift = <usize>(r % n.ne1) * x.nb0;
    for (let c = 0; c < n.ne0; c++) {
      let px = rowAt(x, c, r / n.ne1, 0) + shift;
      let pk = rowAt(kernel, c, 0, 0);
      let sum: f32 = 0;
      for (let k = kernel.ne0; k > 0; k--, px += x.nb0, pk += kernel.nb0)
        sum += load<f32>(px) * load<f32>(pk);
      store<f32>(py + ((<usize>c) << 2), sum);
    }
  }
}
