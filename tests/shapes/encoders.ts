// Encoders as they were published, the smallest of each architecture (sizes: their configurations).
import type { Shape } from "./shape.ts";

const BIASED = "attn_q E E + | attn_k E E + | attn_v E E + | attn_output E E +";
const NORMS = "attn_output_norm E + | layer_output_norm E +";
const PLAIN = "ffn_up E F + | ffn_down F E +";
const EMBEDDED = "token_embd E V | token_types E 2 | token_embd_norm E +";

const MEAN = { "attention.causal": false, pooling_type: 1 };
const V = 4096;

export const ENCODERS: readonly Shape[] = [
  {
    arch: "bert",
    model: "all-MiniLM-L6-v2",
    // without the pooler, which is not used
    count: 22.57e6,
    size: { E: 384, L: 6, H: 12, F: 1536, V: 30522, C: 512 },
    eps: "ln",
    keys: MEAN,
    top: `${EMBEDDED} | position_embd E C`,
    layer: `${BIASED} | ${NORMS} | ${PLAIN}`,
  },
  {
    arch: "nomic-bert",
    model: "nomic-embed-text-v1.5",
    count: 136.7e6,
    size: { E: 768, L: 12, H: 12, F: 3072, V: 30522, C: 2048 },
    eps: "ln",
    keys: { ...MEAN, "rope.freq_base": { f32: 1000 } },
    top: EMBEDDED,
    layer: `attn_qkv E E3 | attn_output E E | ${NORMS} | ffn_gate E F | ffn_up E F | ffn_down F E`,
  },
  {
    arch: "nomic-bert-moe",
    model: "nomic-embed-text-v2-moe",
    count: 475.3e6,
    size: { E: 768, L: 12, H: 12, F: 3072, V: 250048, C: 512, X: 8, K: 2 },
    eps: "ln",
    keys: { ...MEAN, moe_every_n_layers: 2 },
    top: "token_embd E V | token_types E 1 | token_embd_norm E +",
    layer: (i) =>
      [
        `attn_qkv E E3 + | attn_output E E + | ${NORMS}`,
        i % 2 === 1 ? "ffn_gate_inp E X | ffn_up_exps E F X | ffn_down_exps F E X" : PLAIN,
      ].join("|"),
    cut: { L: 4, V },
  },
  {
    arch: "jina-bert-v2",
    model: "jina-embeddings-v2-small-en",
    count: 32.7e6,
    size: { E: 512, L: 4, H: 8, F: 2048, V: 30528, C: 8192 },
    eps: "ln",
    keys: MEAN,
    top: EMBEDDED,
    layer: `${BIASED} | ${NORMS} | ffn_gate E F | ffn_up E F | ffn_down F E +`,
  },
  {
    arch: "jina-bert-v3",
    model: "jina-embeddings-v3",
    // without its adapters
    count: 559e6,
    size: { E: 1024, L: 24, H: 16, F: 4096, V: 250002, C: 8192 },
    eps: "ln",
    keys: { ...MEAN, "rope.freq_base": { f32: 20000 } },
    top: "token_embd E V | token_types E 1 | token_embd_norm E +",
    layer: `attn_qkv E E3 + | attn_output E E + | ${NORMS} | ${PLAIN}`,
    cut: { L: 4, V },
  },
  {
    arch: "eurobert",
    model: "EuroBERT 210M",
    count: 211.8e6,
    size: { E: 768, L: 12, H: 12, F: 3072, V: 128256, C: 8192 },
    eps: "rms",
    keys: { ...MEAN, "rope.freq_base": { f32: 250000 } },
    top: "token_embd E V | output_norm E",
    layer: [
      "attn_norm E | attn_q E E | attn_k E E | attn_v E E | attn_output E E",
      "ffn_norm E | ffn_gate E F | ffn_up E F | ffn_down F E",
    ].join("|"),
    cut: { V },
  },
  {
    arch: "neo-bert",
    model: "NeoBERT",
    count: 222e6,
    size: { E: 768, L: 28, H: 12, F: 2048, V: 30522, C: 4096 },
    eps: "rms",
    keys: { ...MEAN, pooling_type: 2 },
    top: "token_embd E V | enc.output_norm E",
    layer: "attn_norm E | attn_qkv E E3 | attn_output E E | ffn_norm E | ffn_up E F2 | ffn_down F E",
  },
  {
    arch: "modern-bert",
    model: "ModernBERT base",
    count: 149e6,
    size: { E: 768, L: 22, H: 12, F: 1152, V: 50368, C: 8192 },
    eps: "ln",
    keys: {
      ...MEAN,
      "attention.sliding_window": 128,
      "rope.freq_base": { f32: 160000 },
      "rope.freq_base_swa": { f32: 10000 },
    },
    top: "token_embd E V | token_embd_norm E | output_norm E",
    layer: (i) =>
      [
        i === 0 ? "" : "attn_norm E |",
        "attn_qkv E E3 | attn_output E E | ffn_norm E | ffn_up E F2 | ffn_down F E",
      ].join(""),
  },
  {
    arch: "gemma-embedding",
    model: "EmbeddingGemma 300M",
    count: 307.6e6,
    size: { E: 768, L: 24, H: 3, G: 1, D: 256, F: 1152, V: 262144, C: 2048 },
    eps: "rms",
    keys: { ...MEAN, "attention.sliding_window": 512, "rope.freq_base": { f32: 1e6 } },
    top: "token_embd E V | output_norm E | dense_2 E 3072 | dense_3 3072 E",
    layer: [
      "attn_norm E | attn_q E HD | attn_k E GD | attn_v E GD | attn_output HD E | attn_q_norm D | attn_k_norm D",
      "post_attention_norm E | ffn_norm E | ffn_gate E F | ffn_up E F | ffn_down F E | post_ffw_norm E",
    ].join("|"),
    cut: { L: 7, V },
  },
];
