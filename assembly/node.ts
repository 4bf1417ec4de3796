// A node record seen as a struct. Knows layout and shape arithmetic; knows no operator.

import {
  MAX_PARAMS,
  NODE_BUFFER,
  NODE_BYTES,
  NODE_DATA,
  NODE_FLAGS,
  NODE_NB,
  NODE_NE,
  NODE_OFFS,
  NODE_PARAMS,
  NODE_PARENT,
  NODE_SCRATCH,
  NODE_SCRATCH_DATA,
  NODE_SCRATCH_OFFS,
  NODE_SIZE,
  NODE_SRC,
  NODE_TYPE,
  NODE_VIEW_OFFS,
  NODE_VIEW_SRC,
  SRC_LIVE,
} from "./abi";

/** One tensor of a graph: `changetype<Node>(address)`. ne[0] is the innermost dimension. */
@unmanaged
export class Node {
  op: i32;
  type: i32;
  flags: i32;
  buffer: i32;
  ne0: i32;
  ne1: i32;
  ne2: i32;
  ne3: i32;
  nb0: u32;
  nb1: u32;
  nb2: u32;
  nb3: u32;
  src0: Node | null;
  src1: Node | null;
  src2: Node | null;
  src3: Node | null;
  src4: Node | null;
  src5: Node | null;
  src6: Node | null;
  src7: Node | null;
  src8: Node | null;
  live: Node | null;
  viewSrc: Node | null;
  data: usize;
  viewOffs: f64;
  size: f64;
  offs: f64;
  scratch: f64;
  scratchOffs: f64;
  scratchData: usize;
  parent: i32;
}

// The layout of abi.ts, proved while compiling; no code is emitted.
if (offsetof<Node>("type") != NODE_TYPE) ERROR("abi.ts: NODE_TYPE");
if (offsetof<Node>("flags") != NODE_FLAGS) ERROR("abi.ts: NODE_FLAGS");
if (offsetof<Node>("buffer") != NODE_BUFFER) ERROR("abi.ts: NODE_BUFFER");
if (offsetof<Node>("ne0") != NODE_NE) ERROR("abi.ts: NODE_NE");
if (offsetof<Node>("nb0") != NODE_NB) ERROR("abi.ts: NODE_NB");
if (offsetof<Node>("src0") != NODE_SRC) ERROR("abi.ts: NODE_SRC");
if (offsetof<Node>("live") != NODE_SRC + 4 * SRC_LIVE) ERROR("abi.ts: SRC_LIVE");
if (offsetof<Node>("viewSrc") != NODE_VIEW_SRC) ERROR("abi.ts: NODE_VIEW_SRC");
if (offsetof<Node>("data") != NODE_DATA) ERROR("abi.ts: NODE_DATA");
if (offsetof<Node>("viewOffs") != NODE_VIEW_OFFS) ERROR("abi.ts: NODE_VIEW_OFFS");
if (offsetof<Node>("size") != NODE_SIZE) ERROR("abi.ts: NODE_SIZE");
if (offsetof<Node>("offs") != NODE_OFFS) ERROR("abi.ts: NODE_OFFS");
if (offsetof<Node>("scratch") != NODE_SCRATCH) ERROR("abi.ts: NODE_SCRATCH");
if (offsetof<Node>("scratchOffs") != NODE_SCRATCH_OFFS) ERROR("abi.ts: NODE_SCRATCH_OFFS");
if (offsetof<Node>("scratchData") != NODE_SCRATCH_DATA) ERROR("abi.ts: NODE_SCRATCH_DATA");
if (offsetof<Node>("parent") != NODE_PARENT) ERROR("abi.ts: NODE_PARENT");
if (offsetof<Node>() != NODE_PARAMS) ERROR("abi.ts: NODE_PARAMS");
if (NODE_PARAMS + 4 * MAX_PARAMS != NODE_BYTES) ERROR("abi.ts: NODE_BYTES");

/** Integer parameter `i`. */
export function paramI(n: Node, i: i32): i32 {
  return load<i32>(changetype<usize>(n) + NODE_PARAMS + ((<usize>i) << 2));
}

/** Float parameter `i`. */
export function paramF(n: Node, i: i32): f32 {
  return load<f32>(changetype<usize>(n) + NODE_PARAMS + ((<usize>i) << 2));
}

/** Address of parameter `i`. */
export function paramPtr(n: Node, i: i32): usize {
  return changetype<usize>(n) + NODE_PARAMS + ((<usize>i) << 2);
}

/** Source `i`, or null. */
export function srcAt(n: Node, i: i32): Node | null {
  return changetype<Node | null>(load<usize>(changetype<usize>(n) + NODE_SRC + ((<usize>i) << 2)));
}

/** Rows: everything but dimension 0. */
export function nrows(n: Node): i32 {
  return n.ne1 * n.ne2 * n.ne3;
}

/**
 * Rows that need computing. Columns of a batch are its outermost dimension with more than one element; when a node
 * names a live count, only that many of them hold data.
 */
export function liveRows(n: Node): i32 {
  return liveRowsOf(n, n);
}

/** Rows of `shape`, a tensor with the batch of `n`, that need computing. */
export function liveRowsOf(n: Node, shape: Node): i32 {
  const rows = nrows(shape);
  const live = n.live;
  if (live == null) return rows;
  const c = max(0, load<i32>(live.data));
  if (shape.ne3 > 1) return min(c, shape.ne3) * shape.ne1 * shape.ne2;
  if (shape.ne2 > 1) return min(c, shape.ne2) * shape.ne1;
  return min(c, rows);
}

/** First of the `total` rows (or other units) that thread `ith` computes; its last is before that of the next thread. */
export function share(total: i32, ith: i32, nth: i32): i32 {
  return <i32>((<i64>total * ith) / nth);
}

/** As {@link share}, for elements that follow each other; cuts fall on multiples of 64. */
export function shareFlat(total: usize, ith: i32, nth: i32): usize {
  const chunks = <u64>((total + 63) >> 6);
  return min<usize>(total, (<usize>((chunks * ith) / nth)) << 6);
}

/** Address of row `r`, counted through dimensions 1 to 3. */
export function rowPtr(n: Node, r: i32): usize {
  const q = r / n.ne1;
  return rowAt(n, r % n.ne1, q % n.ne2, q / n.ne2);
}

/** True when the elements follow each other at distance nb0 throughout. */
export function isPacked(n: Node): bool {
  let next = <u32>n.ne0 * n.nb0;
  if (n.ne1 > 1 && n.nb1 != next) return false;
  next *= n.ne1;
  if (n.ne2 > 1 && n.nb2 != next) return false;
  next *= n.ne2;
  return n.ne3 <= 1 || n.nb3 == next;
}

/** True when both have the same elements per dimension. */
export function sameShape(a: Node, b: Node): bool {
  return a.ne0 == b.ne0 && a.ne1 == b.ne1 && a.ne2 == b.ne2 && a.ne3 == b.ne3;
}

/** Address of row (i1, i2, i3). */
export function rowAt(n: Node, i1: i32, i2: i32, i3: i32): usize {
  return n.data + <usize>i1 * n.nb1 + <usize>i2 * n.nb2 + <usize>i3 * n.nb3;
}

/** Address of the row of b, whose rows are repeated over n, that belongs to row r of n. */
export function repeatedRow(n: Node, b: Node, r: i32): usize {
  const q = r / n.ne1;
  return rowAt(b, (r % n.ne1) % b.ne1, (q % n.ne2) % b.ne2, (q / n.ne2) % b.ne3);
}
