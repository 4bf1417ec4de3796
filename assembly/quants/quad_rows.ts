// One row out of a pair of quads as f32, with the bits of dequantizeRow() in file order.

import { Type } from "../abi";
import { f16ToF32 } from "../math/f16";
import { scaleOf } from "./quad";
import { fourAt, runBytes } from "./quad_codes";
import { bytesOf, codesAt, formOf, hasMin, hasTable, isSuper, tableOf, zeroOf } from "./quad_types";
import { minsOf, scalesOf } from "./quads_256";
import { isWide } from "./super";

/** Row `row` (0..7) of the pair of quads at pq as `n` f32 at py. */
export function dequantizeQuadRow(type: i32, pq: usize, row: i32, py: usize, n: i32): void {
  const form = formOf(type);
  const h = row >> 2;
  row &= 3;
  for (const end = py + ((<usize>n) << 2); py < end; pq += 2 * bytesOf(type)) {
    const codes = pq + 2 * codesAt(type) + ((<usize>h) << 4);
    if (isSuper(type)) {
      dequantizeSuper(type, pq, h, row, py);
      py += 1024;
    } else {
      const exponent = (<u32>load<u8>(pq + 4 * h + row)) << 23;
      const d = type == Type.MXFP4 ? reinterpret<f32>(exponent) : f16ToF32(scaleOf(pq + 8 * h, row));
      const m: f32 = hasMin(type) ? f16ToF32(scaleOf(pq + 16 + 8 * h, row)) : 0;
      for (let t = 0; t < 8; t++, py += 16) {
        const x = f32x4.mul(values(type, fourAt(form, codes, t), row), f32x4.splat(d));
        v128.store(py, hasMin(type) ? f32x4.add(x, f32x4.splat(m)) : x);
      }
    }
  }
}

// Four codes of a row, less the zero point.
function values(type: i32, v: v128, row: i32): v128 {
  if (hasTable(type)) v = i8x16.swizzle(v128.load(tableOf(type)), v);
  const bytes = i8x16.swizzle(v, i32x4.splat((row << 2) * 0x01010101 + 0x03020100));
  const q = i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(bytes));
  return f32x4.convert_i32x4_s(i32x4.sub(q, i32x4.splat(zeroOf(type))));
}

// Byte j of the lane of a row, signed.
@inline
function byteOf(v: v128, row: i32, j: i32): f32 {
  return <f32>i8x16.extract_lane_s(i8x16.swizzle(v, i8x16.splat(<i8>((row << 2) + j))), 0);
}

function dequantizeSuper(type: i32, pq: usize, h: i32, row: i32, py: usize): void {
  const form = formOf(type);
  const d = f16ToF32(scaleOf(pq + 8 * h, row));
  const dmin: f32 = hasMin(type) ? f16ToF32(scaleOf(pq + 16 + 8 * h, row)) : 0;
  for (let g = 0; g < 16; g++) {
    const s = isWide(type) ? g >> 1 : g;
    const scale = f32x4.splat(d * byteOf(scalesOf(type, pq, h, s >> 2), row, s & 3));
    const min = f32x4.splat(hasMin(type) ? dmin * byteOf(minsOf(type, pq, h, s >> 2), row, s & 3) : 0);
    const run = pq + 2 * (codesAt(type) + <usize>(g >> 1) * runBytes(form)) + ((<usize>h) << 4);
    for (let i = 0; i < 4; i++, py += 16) {
      const x = f32x4.mul(values(type, fourAt(form, run, ((g & 1) << 2) + i), row), scale);
      v128.store(py, hasMin(type) ? f32x4.sub(x, min) : x);
    }
  }
}
