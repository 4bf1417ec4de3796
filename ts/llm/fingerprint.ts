// A hash of a model's header, to tell whether something that was saved belongs to it. Not proof against forgery.

import { type GgufFile, GgufType, type MetaArray, type MetaValue } from "../gguf/index.ts";

/** Bytes of a fingerprint. */
export const FINGERPRINT_BYTES = 16;

/** Hash over the metadata (keys, types, values) and the tensor table (names, types, shapes, places). */
export function fingerprint(file: GgufFile): Uint8Array {
  const hash = new Hash();
  for (const [key, value] of file.metadata) {
    hash.text(key);
    addValue(hash, value);
  }
  for (const t of file.tensors) {
    hash.text(t.name);
    hash.text([t.type, ...t.ne, t.offset - file.dataOffset].join());
  }
  return hash.digest();
}

// Strings that are not UTF-8 count by their bytes.
function addValue(hash: Hash, value: MetaValue): void {
  hash.text(String(value.type));
  if (value.type === GgufType.ARRAY) return addArray(hash, value);
  if (value.type === GgufType.STRING && value.bytes !== undefined) return hash.bytes(value.bytes);
  hash.text(String(value.value));
}

// Length and element type go in first, so that lists cannot run into each other.
function addArray(hash: Hash, { elementType, value }: MetaArray): void {
  hash.text(`${elementType} ${value.length}`);
  if (elementType === GgufType.ARRAY) for (const inner of value) addArray(hash, inner);
  else if (elementType === GgufType.STRING) hash.bytes(value.encoded);
  else hash.bytes(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
}

/** Four lanes of FNV-1a over the same bytes from different starts, mixed at the end. */
class Hash {
  #a = 0x811c9dc5;
  #b = 0x01000193;
  #c = 0x9e3779b9;
  #d = 0x85ebca6b;
  readonly #encoder = new TextEncoder();

  text(text: string): void {
    this.bytes(this.#encoder.encode(text));
  }

  /** Bytes and their number, so that neighbours cannot trade bytes. */
  bytes(bytes: Uint8Array): void {
    let [a, b, c, d] = [this.#a, this.#b, this.#c, this.#d];
    const n = bytes.length;
    for (let i = 0; i < n + 4; i++) {
      const byte = i < n ? bytes[i]! : (n >>> (8 * (i - n))) & 255;
      a = Math.imul(a ^ byte, 0x01000193);
      b = Math.imul(b ^ byte, 0x5bd1e995);
      c = Math.imul(c ^ byte, 0x2c1b3c6d);
      d = Math.imul(d ^ byte ^ (a >>> 24), 0x297a2d39);
    }
    [this.#a, this.#b, this.#c, this.#d] = [a, b, c, d];
  }

  digest(): Uint8Array {
    const out = new Uint8Array(FINGERPRINT_BYTES);
    const view = new DataView(out.buffer);
    const lanes = [this.#a, this.#b, this.#c, this.#d];
    lanes.forEach((lane, i) => view.setUint32(4 * i, mixed(lane ^ (lanes[(i + 1) % 4]! >>> 16)), true));
    return out;
  }
}

/** Every bit of the result depends on every bit of `x`. */
function mixed(x: number): number {
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}
