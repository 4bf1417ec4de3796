// A KV cache as bytes, to go on with a conversation later or elsewhere.
//
//     0   "SWKV"
//     4   u32  version
//     8   u32  T = tensors of the cache: K and V of each layer
//     12  u32  N = tokens
//     16       fingerprint of the model, 16 bytes
//     32  u32  1 = keys are rotated as in contexts longer than the trained one (longrope has two ways), else 0
//     36       T times: u32 element type, u32 bytes of a row
//              N times: i32 token id
//              T times: N rows
//
// All numbers are little-endian. Positions beyond the tokens are not stored, so a cache of any length can take them.

import { FormatError, GraphError } from "../errors.ts";
import type { Tensor } from "../graph/tensor.ts";
import { typeName } from "../types.ts";
import type { Context } from "./context.ts";
import { FINGERPRINT_BYTES } from "./fingerprint.ts";

const MAGIC = 0x564b5753; // "SWKV"
const VERSION = 1;
const LONG_AT = 16 + FINGERPRINT_BYTES;
const HEADER_BYTES = LONG_AT + 4;

/** What a saved cache must agree with. */
export interface CacheOrigin {
  readonly fingerprint: Uint8Array;
  /** keys are rotated with the factors for long contexts */
  readonly long: boolean;
}

/** The tokens of a context with their keys and values. */
export async function encodeCache(context: Context, origin: CacheOrigin): Promise<Uint8Array> {
  const { tokens, cacheTensors } = context;
  const rows = cacheTensors.map((t) => tokens.length * t.nb[1]);
  const head = headBytes(cacheTensors.length, tokens.length);
  const out = new Uint8Array(rows.reduce((sum, n) => sum + n, head));
  const view = new DataView(out.buffer);
  [MAGIC, VERSION, cacheTensors.length, tokens.length].forEach((x, i) => view.setUint32(4 * i, x, true));
  out.set(origin.fingerprint, 16);
  view.setUint32(LONG_AT, Number(origin.long), true);
  cacheTensors.forEach((t, i) => {
    view.setUint32(HEADER_BYTES + 8 * i, t.type, true);
    view.setUint32(HEADER_BYTES + 8 * i + 4, t.nb[1], true);
  });
  tokens.forEach((id, i) => view.setInt32(head - 4 * (tokens.length - i), id, true));
  let at = head;
  for (const [i, t] of cacheTensors.entries()) {
    const { memory, offset } = t.placement!;
    await memory.readInto(offset, out.subarray(at, (at += rows[i]!)));
  }
  return out;
}

/**
 * Puts saved tokens into a context in place of its own. Nothing changes when the bytes do not fit.
 *
 * @param nVocab ids are 0..nVocab-1
 * @throws {FormatError} bad-magic, unsupported-version, truncated, bad-value (of another model), shape-mismatch,
 *   unsupported-type (saved with another kvType), token-range
 * @throws {GraphError} context-full when the context is too short
 */
export function decodeCache(context: Context, origin: CacheOrigin, nVocab: number, bytes: Uint8Array): void {
  const { cacheTensors } = context;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const nTokens = checkHeader(view, bytes, origin, cacheTensors);
  if (nTokens > context.nCtx) {
    const text = `cache: ${nTokens} tokens were saved, the context has ${context.nCtx} positions`;
    throw new GraphError("context-full", text, { expected: context.nCtx, actual: nTokens });
  }
  const head = headBytes(cacheTensors.length, nTokens);
  const total = cacheTensors.reduce((sum, t) => sum + nTokens * t.nb[1], head);
  if (bytes.length !== total) throw truncated(total, bytes.length);
  const ids = Int32Array.from({ length: nTokens }, (_, i) => view.getInt32(head - 4 * (nTokens - i), true));
  const bad = ids.find((id) => id < 0 || id >= nVocab);
  if (bad !== undefined) {
    const text = `cache: token ${bad} is not in 0..${nVocab - 1}`;
    throw new FormatError("token-range", text, { expected: nVocab, actual: bad });
  }
  let at = head;
  for (const t of cacheTensors) {
    const { memory, offset } = t.placement!;
    memory.write(offset, bytes.subarray(at, (at += nTokens * t.nb[1])));
  }
  context.adopt(ids);
}

// Returns the number of tokens.
function checkHeader(
  view: DataView,
  bytes: Uint8Array,
  origin: CacheOrigin,
  tensors: readonly Tensor[],
): number {
  if (bytes.length < HEADER_BYTES) throw truncated(HEADER_BYTES, bytes.length);
  const [magic, version, nTensors, nTokens] = [0, 4, 8, 12].map((at) => view.getUint32(at, true)) as [
    number,
    number,
    number,
    number,
  ];
  if (magic !== MAGIC) throw new FormatError("bad-magic", "cache: not a saved cache", { offset: 0 });
  if (version !== VERSION) {
    const text = `cache: version ${version}, expected ${VERSION}`;
    throw new FormatError("unsupported-version", text, { offset: 4, expected: VERSION, actual: version });
  }
  if (origin.fingerprint.some((byte, i) => byte !== bytes[16 + i])) {
    throw new FormatError("bad-value", "cache: saved from another model", { offset: 16 });
  }
  if (view.getUint32(LONG_AT, true) !== Number(origin.long)) {
    const text = "cache: saved in a context whose length makes this model rotate keys in another way";
    throw new FormatError("shape-mismatch", text, { offset: LONG_AT });
  }
  if (nTensors !== tensors.length) throw otherShape(8, tensors.length, nTensors, "tensors");
  const head = headBytes(nTensors, nTokens);
  if (bytes.length < head) throw truncated(head, bytes.length);
  tensors.forEach((t, i) => checkTensor(view, HEADER_BYTES + 8 * i, t));
  return nTokens;
}

function checkTensor(view: DataView, offset: number, t: Tensor): void {
  const type = view.getUint32(offset, true);
  if (type !== t.type) {
    const [expected, actual] = [typeName(t.type), typeName(type)];
    const text = `cache: ${t.name} was saved as ${actual}, the context has ${expected}`;
    throw new FormatError("unsupported-type", text, { offset, tensor: t.name, expected, actual });
  }
  const rowBytes = view.getUint32(offset + 4, true);
  if (rowBytes !== t.nb[1]) throw otherShape(offset + 4, t.nb[1], rowBytes, `bytes per row of ${t.name}`);
}

function headBytes(nTensors: number, nTokens: number): number {
  return HEADER_BYTES + 8 * nTensors + 4 * nTokens;
}

function otherShape(offset: number, expected: number, actual: number, what: string): FormatError {
  const text = `cache: ${actual} ${what}, the context has ${expected}`;
  return new FormatError("shape-mismatch", text, { offset, expected, actual });
}

function truncated(expected: number, actual: number): FormatError {
  return new FormatError("truncated", `cache: ${actual} bytes, expected ${expected}`, { expected, actual });
}
