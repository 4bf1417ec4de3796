// What FLASH_ATTN_EXT keeps in the scratch of a thread, with `rows` the least of ROWS and all rows:
//
// Work | Row[rows] | scores [rows] | q [rows] | accumulators [rows] | partial sums | tile [CELLS][heads], of keys, then of
// values

import { ATTN_PARTIAL_BYTES, ATTN_ROWS, ATTN_WORK_BYTES, AttnParam } from "../abi";
import { WEIGHTS } from "../matmul/attention";
import { Node, nrows, paramF } from "../node";

/** Rows that go together. */
export const ROWS: i32 = ATTN_ROWS;

/** What all rows of a call share. Pointers to the parts of the scratch. */
@unmanaged
export class Work {
  rows: usize;
  p: usize;
  q: usize;
  acc: usize;
  partials: usize;
  buffer: usize;
  /** bytes of a padded q or k row, and of an accumulator or v row */
  nbd: usize;
  nbv: usize;
  /** of query rows: products with keys are scores then, or what the cap takes */
  scale: f32;
  cap: f32;
  count: i32;
  /** KV heads of a sequence, the first one of the rows and how many they have, and their sequence */
  heads: i32;
  head: i32;
  units: i32;
  sequence: i32;
  /** cells that some row sees */
  lo: i32;
  hi: i32;
  /** where tiles are counted from */
  origin: i32;
  /**
   * the open tile: cells [from, to), counted in the stretch; cell 0 of the stretch of w.head, bytes from cell to cell and
   * from head to head, KV heads that share one
   */
  from: i32;
  to: i32;
  tile: usize;
  step: usize;
  apart: usize;
  shared: i32;
  /** whether it is f16, where it stands */
  half: bool;
  /** whether cells count as 2^-112 of what they are (matmul/attention.ts) */
  shift: bool;
  /** written only */
  seen: u32;
}

/** One token of one head. */
@unmanaged
export class Row {
  q: usize;
  acc: usize;
  /** scores in the tile, then weights */
  p: usize;
  /** its mask row, or 0 */
  mask: usize;
  out: usize;
  /** its KV head */
  head: i32;
  /** cells it may see, and its own */
  lo: i32;
  hi: i32;
  own: i32;
  slope: f32;
  sink: f32;
  top: f32;
  sum: f32;
  /** whether it sees something of the tile */
  shown: bool;
}


@inline
export function rowOf(w: Work, i: i32): Row {
  return changetype<Row>(w.rows + ((<usize>i) << 6));
}

/** Sets up a thread's scratch for a node. */
export function layOut(n: Node, scratch: usize): Work {
  const w = changetype<Work>(scratch);
  w.cap = paramF(n, AttnParam.SOFTCAP);
  w.scale = paramF(n, AttnParam.SCALE);
  if (w.cap != 0) w.scale /= w.cap;
  w.nbd = (<usize>((n.src0!.ne0 + 15) & ~15)) << 2;
  w.nbv = (<usize>((n.ne0 + 15) & ~15)) << 2;
  w.rows = scratch + ATTN_WORK_BYTES;
  const rows = <usize>min(ROWS, nrows(n));
  w.p = w.rows + (rows << 6);
  w.q = w.p + rows * WEIGHTS;
  w.acc = w.q + rows * w.nbd;
  w.partials = w.acc + rows * w.nbv;
  w.buffer = w.partials + ATTN_PARTIAL_BYTES;
  return w;
}
