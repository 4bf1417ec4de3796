// Reads the tensors of ggml's containers from before GGUF: records one after another up to the end of the file.
//
//   i32 nDims | i32 nameLength | i32 type | i32 ne[nDims], innermost first | name | data, without padding

import { Type } from "../../ts/index.ts";

// Elements and bytes of a block of the types that these files have.
const BLOCKS: ReadonlyMap<Type, readonly [elements: number, bytes: number]> = new Map([
  [Type.F32, [1, 4]],
  [Type.F16, [1, 2]],
  [Type.Q4_0, [32, 18]],
  [Type.Q4_1, [32, 20]],
  [Type.Q5_0, [32, 22]],
  [Type.Q5_1, [32, 24]],
  [Type.Q8_0, [32, 34]],
]);

/** A tensor of a file; `bytes` is a view of the file. */
export interface LegacyTensor {
  readonly type: Type;
  readonly ne: readonly number[];
  readonly bytes: Uint8Array;
}

/** Little-endian integers from `offset` on. */
export function readInts(file: Uint8Array, offset: number, count: number): number[] {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  return Array.from({ length: count }, (_, i) => view.getInt32(offset + 4 * i, true));
}

/**
 * All tensors from `offset` on, by name. `types` says which element type a number in the file means.
 *
 * @throws {RangeError} when a record does not fit into the file
 * @throws {Error} for element types that `types` does not name
 */
export function readTensors(
  file: Uint8Array,
  offset: number,
  types: ReadonlyMap<number, Type>,
): Map<string, LegacyTensor> {
  const tensors = new Map<string, LegacyTensor>();
  for (let at = offset; at < file.length;) {
    const [nDims, nameLength, id] = readInts(file, at, 3) as [number, number, number];
    const type = types.get(id);
    const block = type === undefined ? undefined : BLOCKS.get(type);
    if (type === undefined || block === undefined || nDims < 0 || nDims > 4 || nameLength < 0)
      throw new Error(`no tensor at byte ${at}: type ${id}, ${nDims} dimensions`);
    const ne = readInts(file, at + 12, nDims);
    const name = at + 12 + 4 * nDims;
    const data = name + nameLength;
    at = data + (ne.reduce((a, b) => a * b, 1) / block[0]) * block[1];
    if (ne.some((n) => n < 1) || at > file.length)
      throw new RangeError(`tensor at byte ${name}: file too short`);
    const key = new TextDecoder().decode(file.subarray(name, data));
    tensors.set(key, { type, ne, bytes: file.subarray(data, at) });
  }
  return tensors;
}
