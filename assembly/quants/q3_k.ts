// Q3_K: 256 weights in 110 bytes, x = d * (sc - 32) * (q - 4), sc per 16 weights. Partner: Q8_K.
//
//   0 hmask[32]      bit 4 * half + j of byte l = bit 2 of element l of run j
//   32 qs[64]        low two bits, as in Q2_K
//   96 scales[12]    six bits each: low nibbles of 0..7 and high nibbles (8..15) in bytes 0..7; bits 2 * (k / 4) of
//                    byte 8 + k % 4 are the upper two of scale k
//   108 d f16

import { f16ToF32 } from "../math/f16";
import { packPairs } from "./q2_k";
import { BLOCK_SCALES } from "./search";
import { dequantizeSuper, oneBit, packTops, twoBits } from "./super";
import { searchThrees } from "./super_search";

/** Half a super-block at a time; methods as in quants/super.ts. */
@unmanaged
export class Q3_K {

  @inline
  bytes(): usize {
    return 110;
  }


  @inline
  wide(): bool {
    return false;
  }


  @inline
  signed(): bool {
    return false;
  }


  @inline
  hasMin(): bool {
    return false;
  }


  @inline
  zero(): i32 {
    return 4;
  }


  @inline
  codes(p: usize, half: i32, j: i32, h: i32): v128 {
    const o = (<usize>h) << 4;
    const low = twoBits(v128.load(p + 32 + ((<usize>half) << 5) + o), 2 * j);
    return v128.or(low, i16x8.shl(oneBit(v128.load(p + o), 4 * half + j), 2));
  }


  @inline
  scales(p: usize): v128 {
    const a = load<u64>(p, 96);
    const b = <u64>load<u32>(p, 104);
    const low = (a & 0x0f0f0f0f0f0f0f0f) | (((b | (b << 30)) & 0x0303030303030303) << 4);
    const high = ((a >> 4) & 0x0f0f0f0f0f0f0f0f) | ((((b >> 4) | (b << 26)) & 0x0303030303030303) << 4);
    const s = i64x2.replace_lane(i64x2.splat(low), 1, high);
    return i8x16.sub(s, i8x16.splat(32));
  }


  @inline
  mins(p: usize): v128 {
    return i32x4.splat(0);
  }


  @inline
  d(p: usize): f32 {
    return f16ToF32(load<u16>(p, 108));
  }


  @inline
  dmin(p: usize): f32 {
    return 0;
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeQ3_K(px: usize, py: usize, n: i32): void {
  dequantizeSuper<Q3_K>(px, py, n);
}

/** `n` f32 at px to blocks at py; pq importance of each or 0, ps scratch of search.ts. */
export function quantizeQ3_K(px: usize, pq: usize, py: usize, n: i32, ps: usize): void {
  for (const end = px + ((<usize>n) << 2); px < end; px += 1024, py += 110) {
    store<u16>(py, <u16>searchThrees(px, pq, ps), 108);
    packTops(ps, 2, py);
    packPairs(ps, py + 32);
    packScales(ps + BLOCK_SCALES, py + 96);
    if (pq != 0) pq += 1024;
  }
}

// Sixteen scales of six bits to 12 bytes.
function packScales(pl: usize, py: usize): void {
  memory.fill(py, 0, 12);
  for (let k: usize = 0; k < 16; k++) {
    const s = load<u8>(pl + k);
    const low = py + (k & 7);
    store<u8>(low, load<u8>(low) | ((s & 15) << (k < 8 ? 0 : 4)));
    const high = py + 8 + (k & 3);
    const shift = <u8>(2 * (k >> 2));
    store<u8>(high, load<u8>(high) | ((s >> 4) << shift));
  }
}
