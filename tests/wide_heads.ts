// The tiny trained llama model with its heads of 8 widened to 32 by zeros: the same function, in whole blocks.
import {
  GgufType,
  type MetaValue,
  parseGguf,
  type TensorData,
  type TensorInfo,
  writeGguf,
} from "../ts/gguf/index.ts";

const FROM = 8;
const TO = 32;

/**
 * Where element `i` of all narrow heads goes. Pair j of a head turns by base^(-2j/8): in a head of 32 that is pair 4j.
 *
 *     0 1 | 2 3 | 4 5 | 6 7   ->   0 1 . . . . . . | 2 3 . . . . . . | 4 5 . . . . . . | 6 7 . . . . . .
 */
function place(i: number): number {
  const d = i % FROM;
  return Math.floor(i / FROM) * TO + Math.floor(d / 2) * ((2 * TO) / FROM) + (d % 2);
}

/** @param bytes stories260K in F32 */
export function widenHeads(bytes: Uint8Array): Uint8Array {
  const file = parseGguf(bytes);
  const u32 = (value: number): MetaValue => ({ type: GgufType.UINT32, value });
  const metadata = new Map(file.metadata);
  metadata.set("llama.attention.key_length", u32(TO));
  metadata.set("llama.attention.value_length", u32(TO));
  metadata.set("llama.rope.dimension_count", u32(TO));
  const tensors = file.tensors.map((t) => {
    const data = new Float32Array(bytes.slice(t.offset, t.offset + t.nBytes).buffer);
    // The graph divides scores by the root of the wider head: twice the root of the narrow one.
    if (/attn_[qkv]\.weight/.test(t.name)) return widenRows(t, data, t.name.includes("attn_q") ? 2 : 1);
    return t.name.includes("attn_output") ? widenColumns(t, data) : tensor(t, t.ne, data);
  });
  return writeGguf(metadata, tensors);
}

function tensor({ name, type, nDims }: TensorInfo, ne: readonly number[], data: Float32Array): TensorData {
  return { name, type, nDims, ne, data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength) };
}

function widenRows(t: TensorInfo, data: Float32Array, factor: number): TensorData {
  const [width, rows] = [t.ne[0]!, t.ne[1]!];
  const out = new Float32Array((width * rows * TO) / FROM);
  for (let r = 0; r < rows; r++) {
    const to = place(r);
    for (let i = 0; i < width; i++) out[to * width + i] = data[r * width + i]! * factor;
  }
  return tensor(t, [width, (rows * TO) / FROM], out);
}

function widenColumns(t: TensorInfo, data: Float32Array): TensorData {
  const [width, rows] = [t.ne[0]!, t.ne[1]!];
  const wide = (width * TO) / FROM;
  const out = new Float32Array(wide * rows);
  for (let r = 0; r < rows; r++) {
    for (let i = 0; i < width; i++) out[r * wide + place(i)] = data[r * width + i]!;
  }
  return tensor(t, [wide, rows], out);
}
