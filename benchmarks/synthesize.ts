// GGUF models in real shapes with random weights, written by our own writer. The text they give is noise; speed is what counts. Blocks are made directly, random codes with fixed sane scales.
import { closeSync, existsSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { metaMap, spmMeta } from "../tests/meta.ts";
import { type MetaValue, type TensorData, ggufChunks } from "../ts/gguf/index.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { FILE_TYPES, type Shape, SHAPES, typeIn, type Use } from "./shapes.ts";

/** Where models lie unless said otherwise. */
export const MODELS: string = join(import.meta.dirname, "models");

/** Spread of the weights. */
const STD = 0.02;
const CHUNK_BLOCKS = 8192;

let state = 0x9e3779b9 | 0;

/** Fills with xorshift32, the same numbers in each run. */
function randomFill(words: Uint32Array): void {
  let s = state;
  for (let i = 0; i < words.length; i++) {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    words[i] = s;
  }
  state = s;
}

/** A positive normal f16 near x. */
function half(x: number): number {
  const e = Math.floor(Math.log2(x));
  return ((e + 15) << 10) | Math.round((x / 2 ** e - 1) * 1023);
}

function putHalf(block: Uint8Array, at: number, x: number): void {
  const h = half(x);
  block[at] = h & 255;
  block[at + 1] = h >> 8;
}

/** Gives a block of random bytes scales under which its weights have about the spread STD. */
function setScales(type: Type, b: Uint8Array): void {
  switch (type) {
    case Type.F16:
      b[1] = (b[1]! & 0x83) | 0x20; // 2^-7 to 2^-6, either sign
      return;
    case Type.Q4_0:
      return putHalf(b, 0, STD / 4.6);
    case Type.Q4_1:
      putHalf(b, 0, STD / 4.6);
      return putHalf(b, 2, STD);
    case Type.Q5_0:
      return putHalf(b, 0, STD / 9.2);
    case Type.Q5_1:
      putHalf(b, 0, STD / 9.2);
      return putHalf(b, 2, STD);
    case Type.IQ4_NL:
      return putHalf(b, 0, STD / 69);
    case Type.MXFP4:
      b[0] = 128 + Math.floor(Math.log2(STD / 6));
      return;
    case Type.Q8_0:
      return putHalf(b, 0, STD / 73);
    case Type.Q2_K:
      putHalf(b, 80, STD / 10);
      return putHalf(b, 82, STD / 7);
    case Type.Q3_K:
      return putHalf(b, 108, STD / 42);
    case Type.Q5_K:
      putHalf(b, 0, STD / 295);
      putHalf(b, 2, STD / 19.2);
      b.fill(160, 4, 12).fill(0, 12, 16); // as in Q4_K
      return;
    case Type.IQ4_XS:
      return putHalf(b, 0, STD / 300);
    case Type.Q4_K:
      putHalf(b, 0, STD / 144);
      putHalf(b, 2, STD / 19.2);
      b.fill(160, 4, 12).fill(0, 12, 16); // all scales and minima 32
      return;
    case Type.Q6_K:
      b.fill(32, 192, 208);
      putHalf(b, 208, STD / 592);
      return;
    default:
      throw new TypeError(`models: no blocks of type ${type}`);
  }
}

function* randomBlocks(type: Type, count: number): Generator<Uint8Array> {
  const { blockSize, typeSize } = typeInfo(type)!;
  for (let left = count / blockSize; left > 0; left -= CHUNK_BLOCKS) {
    const n = Math.min(left, CHUNK_BLOCKS);
    const words = new Uint32Array(Math.ceil((n * typeSize) / 4));
    randomFill(words);
    const bytes = new Uint8Array(words.buffer, 0, n * typeSize);
    for (let i = 0; i < n; i++) setScales(type, bytes.subarray(i * typeSize, (i + 1) * typeSize));
    yield bytes;
  }
}

/** `count` random weights of a type. */
export function fillBlocks(type: Type, count: number): Uint8Array {
  if (type === Type.F32)
    return new Uint8Array(Float32Array.from({ length: count }, (_, i) => Math.sin(i)).buffer);
  const { blockSize, typeSize } = typeInfo(type)!;
  const bytes = new Uint8Array((count / blockSize) * typeSize);
  let at = 0;
  for (const chunk of randomBlocks(type, count)) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

function matrix(name: string, type: Type, from: number, to: number): TensorData {
  return { name: `${name}.weight`, type, ne: [from, to], data: () => randomBlocks(type, from * to) };
}

function vector(name: string, n: number, at: (i: number) => number): TensorData {
  return {
    name,
    type: Type.F32,
    ne: [n],
    data: new Uint8Array(Float32Array.from({ length: n }, (_, i) => at(i)).buffer),
  };
}

function* tensors(s: Shape, mix: string): Generator<TensorData> {
  const kv = (s.nEmbd / s.nHead) * s.nHeadKv;
  const typed = (name: string, use: Use, i: number, from: number, to: number): TensorData =>
    matrix(name, typeIn(mix, s, use, i, from), from, to);
  const ones = (name: string): TensorData => vector(`${name}.weight`, s.nEmbd, () => 1);
  yield typed("token_embd", s.tied ? "output" : "embedding", -1, s.nEmbd, s.nVocab);
  yield ones("output_norm");
  if (!s.tied) yield typed("output", "output", -1, s.nEmbd, s.nVocab);
  for (let i = 0; i < s.nLayer; i++) {
    const at = (name: string): string => `blk.${i}.${name}`;
    yield ones(at("attn_norm"));
    yield typed(at("attn_q"), "other", i, s.nEmbd, s.nEmbd);
    yield typed(at("attn_k"), "other", i, s.nEmbd, kv);
    yield typed(at("attn_v"), "v", i, s.nEmbd, kv);
    yield typed(at("attn_output"), "other", i, s.nEmbd, s.nEmbd);
    yield ones(at("ffn_norm"));
    yield typed(at("ffn_gate"), "other", i, s.nEmbd, s.nFf);
    yield typed(at("ffn_up"), "other", i, s.nEmbd, s.nFf);
    yield typed(at("ffn_down"), "down", i, s.nFf, s.nEmbd);
    if (s.arch !== "qwen2") continue;
    const wave = (j: number): number => Math.sin(j) * 0.01;
    yield vector(at("attn_q.bias"), s.nEmbd, wave);
    yield vector(at("attn_k.bias"), kv, wave);
    yield vector(at("attn_v.bias"), kv, wave);
  }
}

/** A vocabulary in which each letter and each word of one letter is a token. */
function vocabulary(n: number): Record<string, Parameters<typeof metaMap>[0][string]> {
  const letters = [..."\u2581abcdefghijklmnopqrstuvwxyz"];
  const words = letters.slice(1).map((c) => `\u2581${c}`);
  const rest = Array.from(
    { length: n - 259 - letters.length - words.length },
    (_, i) => `\u2581w${i.toString(36)}x`,
  );
  return spmMeta([...words, ...letters, ...rest], {
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.add_bos_token": true,
  });
}

function metadata(name: string, s: Shape, mix: string): Map<string, MetaValue> {
  const keys: Parameters<typeof metaMap>[0] = {
    context_length: 8192,
    embedding_length: s.nEmbd,
    block_count: s.nLayer,
    feed_forward_length: s.nFf,
    "attention.head_count": s.nHead,
    "attention.head_count_kv": s.nHeadKv,
    "attention.layer_norm_rms_epsilon": { f32: 1e-5 },
    "rope.dimension_count": s.nEmbd / s.nHead,
    "rope.freq_base": { f32: s.freqBase },
    vocab_size: s.nVocab,
  };
  return metaMap({
    "general.architecture": s.arch,
    "general.name": `synthetic ${name} ${mix}`,
    "general.file_type": FILE_TYPES[mix],
    ...Object.fromEntries(Object.entries(keys).map(([k, v]) => [`${s.arch}.${k}`, v])),
    ...vocabulary(s.nVocab),
  });
}

/** Path of a model, written when it is not there. */
export function model(folder: string, name: string, mix: string): string {
  const shape = SHAPES[name];
  if (shape === undefined)
    throw new TypeError(`models: shape ${name}, expected ${Object.keys(SHAPES).join(", ")}`);
  const path = join(folder, `${name}-${mix}.gguf`);
  if (existsSync(path)) return path;
  mkdirSync(folder, { recursive: true });
  const fd = openSync(`${path}.part`, "w");
  for (const chunk of ggufChunks(metadata(name, shape, mix), [...tensors(shape, mix)])) {
    for (let at = 0; at < chunk.length;) at += writeSync(fd, chunk, at);
  }
  closeSync(fd);
  renameSync(`${path}.part`, path);
  return path;
}
