// What bytes that are not GGUF look like, in words a user can act on.

const GGUF = [0x47, 0x47, 0x55, 0x46];

/** True when `bytes` begin as a GGUF file does, as far as they go. */
export function isGgufMagic(bytes: Uint8Array): boolean {
  return GGUF.every((byte, i) => i >= bytes.length || bytes[i] === byte);
}

const SIGNATURES: readonly (readonly [start: string, what: string])[] = [
  ["version https://git-lfs", "a Git LFS pointer: the file itself was never downloaded"],
  ["\xef\xbb\xbfGGUF", "GGUF behind a byte order mark: it was transferred as text"],
  ["FUGG", "GGUF with its bytes reversed"],
  ["PK\x03\x04", "a zip archive, such as a PyTorch checkpoint"],
  ["\x80\x02", "a Python pickle, such as an old PyTorch checkpoint"],
  ["\x1f\x8b", "gzip: unpack it first"],
  ["\x28\xb5\x2f\xfd", "zstd: unpack it first"],
  ["\x89HDF", "HDF5"],
  ["lmgg", "a file from before GGUF (ggml): convert it"],
  ["fmgg", "a file from before GGUF (ggmf): convert it"],
  ["tjgg", "a file from before GGUF (ggjt): convert it"],
  ["algg", "a LoRA adapter from before GGUF (ggla): convert it"],
  ["\0\0\0\0", "zeros: a download that was reserved but never filled?"],
];

/** "HTML ...", "safetensors", ... of the first bytes of a file. */
export function describeBytes(bytes: Uint8Array): string {
  const start = String.fromCharCode(...bytes.subarray(0, 256));
  const text = start.replace(/^\xef\xbb\xbf/, "").trimStart();
  if (text.startsWith("<")) return "HTML or XML: an error page instead of the file?";
  if (isSafetensors(bytes)) return "safetensors: convert it to GGUF";
  for (const [signature, what] of SIGNATURES) if (start.startsWith(signature)) return what;
  if (text.startsWith("{") || text.startsWith("[")) return "JSON: an error message instead of the file?";
  if (/^[\t\n\r\x20-\x7e]{4}/.test(start)) return `the text ${JSON.stringify(text.slice(0, 40))}`;
  return `the bytes ${Array.from(bytes.subarray(0, 8), (b) => b.toString(16).padStart(2, "0")).join(" ")}`;
}

/** u64 header length, then a JSON object. */
function isSafetensors(bytes: Uint8Array): boolean {
  return bytes.length > 8 && bytes[8] === 0x7b && bytes[5] === 0 && bytes[6] === 0 && bytes[7] === 0;
}
