// A llama model of any size whose weights are zeros: a header and a hole. For loading and memory, not for text.
import { ftruncateSync, openSync, closeSync, writeSync } from "node:fs";
import { type GgufHeader, ggufHeader, type TensorHeader } from "../ts/gguf/index.ts";
import { Type } from "../ts/types.ts";
import { metaMap, spmMeta } from "./meta.ts";

/** Sizes of a synthetic model. */
export interface SyntheticShape {
  readonly nEmbd: number;
  readonly nLayer: number;
  readonly nHead: number;
  readonly nHeadKv: number;
  readonly nFf: number;
  readonly nCtx: number;
  readonly type: Type;
}

/** Header of a model with a vocabulary of the 259 basic tokens. */
export function syntheticHeader(s: SyntheticShape): GgufHeader {
  const kv = (s.nEmbd / s.nHead) * s.nHeadKv;
  const norm = (name: string): TensorHeader => ({ name: `${name}.weight`, type: Type.F32, ne: [s.nEmbd] });
  const matrix = (name: string, from: number, to: number): TensorHeader => ({
    name: `${name}.weight`,
    type: s.type,
    ne: [from, to],
  });
  const layers = Array.from({ length: s.nLayer }, (_, i) => [
    norm(`blk.${i}.attn_norm`),
    matrix(`blk.${i}.attn_q`, s.nEmbd, s.nEmbd),
    matrix(`blk.${i}.attn_k`, s.nEmbd, kv),
    matrix(`blk.${i}.attn_v`, s.nEmbd, kv),
    matrix(`blk.${i}.attn_output`, s.nEmbd, s.nEmbd),
    norm(`blk.${i}.ffn_norm`),
    matrix(`blk.${i}.ffn_gate`, s.nEmbd, s.nFf),
    matrix(`blk.${i}.ffn_up`, s.nEmbd, s.nFf),
    matrix(`blk.${i}.ffn_down`, s.nFf, s.nEmbd),
  ]);
  const metadata = metaMap({
    ...spmMeta([]),
    "general.architecture": "llama",
    "llama.context_length": s.nCtx,
    "llama.embedding_length": s.nEmbd,
    "llama.block_count": s.nLayer,
    "llama.feed_forward_length": s.nFf,
    "llama.attention.head_count": s.nHead,
    "llama.attention.head_count_kv": s.nHeadKv,
    "llama.attention.layer_norm_rms_epsilon": { f32: 1e-5 },
  });
  return ggufHeader(metadata, [matrix("token_embd", s.nEmbd, 259), ...layers.flat(), norm("output_norm")]);
}

/** Writes the file; the weights are a hole that reads as zeros. Returns its size in bytes. */
export function writeSynthetic(path: string, shape: SyntheticShape): number {
  const header = syntheticHeader(shape);
  const fd = openSync(path, "w");
  writeSync(fd, header.bytes);
  ftruncateSync(fd, header.fileSize);
  closeSync(fd);
  return header.fileSize;
}
