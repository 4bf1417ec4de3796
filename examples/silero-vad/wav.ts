// Samples of a WAV file: one channel, 16 bits.

/** Samples from -1 to 1 and their rate. */
export function readWav(file: Uint8Array): { readonly rate: number; readonly samples: Float32Array } {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let rate = 0;
  for (let at = 12; at + 8 <= file.length;) {
    const id = String.fromCharCode(...file.subarray(at, at + 4));
    const size = view.getUint32(at + 4, true);
    if (id === "fmt ") {
      const [channels, bits] = [view.getUint16(at + 10, true), view.getUint16(at + 22, true)];
      rate = view.getUint32(at + 12, true);
      if (channels !== 1 || bits !== 16)
        throw new Error(`${channels} channel(s) of ${bits} bits, expected 1 of 16`);
    }
    if (id === "data") {
      const n = Math.floor(Math.min(size, file.length - at - 8) / 2);
      const samples = Float32Array.from({ length: n }, (_, i) => view.getInt16(at + 8 + 2 * i, true) / 32768);
      return { rate, samples };
    }
    at += 8 + size + (size % 2);
  }
  throw new Error("no samples in the file");
}
