// ADD_ID: dst[.., i, t] = a[.., i, t] + b[.., ids[i, t]]: to each row the row of b with its id.
//
//   a F32 [n, k, T], b [n, X] of a float type, ids I32 [k, T] -> dst [n, k, T]; an id outside 0..X-1 traps

import { Type } from "../abi";
import { floatBytes, loadLanes, storeLanes } from "../math/lanes";
import { Node, liveRows, rowAt, rowPtr, share } from "../node";

export function addId(n: Node, ith: i32, nth: i32): void {
  const b = n.src1!;
  const ids = n.src2!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const id = load<i32>(ids.data + <usize>(r % n.ne1) * ids.nb0 + <usize>(r / n.ne1) * ids.nb1);
    if (<u32>id >= <u32>b.ne1) unreachable();
    addRow(n.ne0, rowPtr(n.src0!, r), b.type, rowAt(b, id, 0, 0), rowPtr(n, r));
  }
}

function addRow(n: i32, pa: usize, type: i32, pb: usize, py: usize): void {
  const size = floatBytes(type);
  for (let i = n; i > 0; i -= 4) {
    const k = min(i, 4);
    storeLanes(Type.F32, py, 4, k, f32x4.add(loadLanes(Type.F32, pa, 4, k), loadLanes(type, pb, size, k)));
    pa += 16;
    pb += size << 2;
    py += 16;
  }
}
