// Files of the sizes that were published: keys and tensors from a short description, data of any bits.
//
// Letters of the descriptions: E embedding, F feed-forward, V vocabulary, C context, H heads, G of keys and values,
// D head size, X experts; a product is written out (HD = H D). "+" after a tensor: it has a bias.
import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { type GgufHeader, ggufHeader, StringArray, type TensorHeader } from "../../ts/gguf/index.ts";
import { Type, typeInfo } from "../../ts/types.ts";
import { type Core, samples, stream } from "../core.ts";
import { type Fake, metaMap } from "../meta.ts";

/** A published model. Lists of tensors: `name letters... [+]`, several split by "|". */
export interface Shape {
  readonly arch: string;
  readonly model: string;
  /** parameters as its publisher states them */
  readonly count: number;
  /** E, F, V, C, L layers, H; G is H and D is E / H where absent; further letters as the lists need them */
  readonly size: Readonly<Record<string, number>>;
  readonly eps: "rms" | "ln";
  /** keys besides those of the sizes, without the prefix */
  readonly keys?: Record<string, Fake>;
  readonly top: string;
  readonly layer: string | ((i: number) => string);
  /** sizes of the file that is loaded and run, where the whole is too large for a test */
  readonly cut?: Readonly<Record<string, number>>;
  /** of matrices; Q4_0 when absent */
  readonly type?: Type;
}

/** Elements of vectors and of small tables are F32, as in published files. */
const F32 = /norm|_inp|conv\.|position_embd|token_types|sinks|\.bias$/;
/** Places in a tensor from which on some rows are not zero. */
const STRIPES = 16;

function sizes({ size }: Shape, cut: Readonly<Record<string, number>>): Record<string, number> {
  const { E = 0, H = 0, G = H, D = E / H, F = 0, ...rest } = { ...size, ...cut };
  return {
    E,
    H,
    G,
    D,
    F,
    ...rest,
    HD: H * D,
    GD: G * D,
    QKV: (H + 2 * G) * D,
    F2: 2 * F,
    E2: 2 * E,
    E3: 3 * E,
  };
}

/** The tensors of a model, in the file's order. */
export function tensorsOf(shape: Shape, cut: Readonly<Record<string, number>> = {}): TensorHeader[] {
  const letters = sizes(shape, cut);
  const { layer } = shape;
  const parse = (text: string, prefix: string): TensorHeader[] =>
    text.split("|").flatMap((item) => tensor(item.trim().split(/\s+/), prefix, letters, shape.type));
  const blocks = Array.from({ length: letters["L"]! }, (_, i) =>
    parse(typeof layer === "string" ? layer : layer(i), `blk.${i}.`),
  );
  return [...parse(shape.top, ""), ...blocks.flat()];
}

function tensor(
  [name, ...dims]: readonly string[],
  prefix: string,
  letters: Readonly<Record<string, number>>,
  type: Type = Type.Q4_0,
): TensorHeader[] {
  const ne = dims.filter((d) => d !== "+").map((d) => letters[d] ?? Number(d));
  const full = `${prefix}${name}${name!.endsWith(".bias") ? "" : ".weight"}`;
  const plain = ne.length === 1 || F32.test(full);
  const own = { name: full, type: plain ? Type.F32 : type, ne };
  return dims.includes("+")
    ? [own, { name: `${prefix}${name}.bias`, type: Type.F32, ne: ne.length === 1 ? ne : ne.slice(1) }]
    : [own];
}

/** Header of a model; its vocabulary has texts that mean nothing. */
export function headerOf(shape: Shape, cut: Readonly<Record<string, number>> = {}): GgufHeader {
  const { E, H, G, D, F, V, C, L, X, K } = sizes(shape, cut);
  const { arch, eps, keys = {} } = shape;
  const own: Record<string, Fake> = {
    context_length: C,
    embedding_length: E,
    block_count: L,
    feed_forward_length: F,
    "attention.head_count": H,
    "attention.head_count_kv": G,
    "attention.key_length": D,
    "attention.value_length": D,
    [`attention.layer_norm_${eps === "rms" ? "rms_" : ""}epsilon`]: { f32: 1e-5 },
    expert_count: X,
    expert_used_count: K,
    ...keys,
  };
  const prefixed = Object.entries(own).map(([key, value]) => [`${arch}.${key}`, value] as const);
  const metadata = metaMap({
    "general.architecture": arch,
    ...Object.fromEntries(prefixed),
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": { type: 9, elementType: 8, value: vocabulary(V!) },
    "tokenizer.ggml.merges": ["1 0"],
    "tokenizer.ggml.token_type_count": 2,
  });
  return ggufHeader(metadata, tensorsOf(shape, cut));
}

const vocabularies = new Map<number, StringArray>();

function vocabulary(size: number): StringArray {
  const made =
    vocabularies.get(size) ?? StringArray.from(Array.from({ length: size }, (_, i) => i.toString(36)));
  vocabularies.set(size, made);
  return made;
}

/** Elements of a list of tensors. */
export function elements(tensors: readonly TensorHeader[]): number {
  return tensors.reduce((sum, { ne }) => sum + ne.reduce((a, b) => a * b, 1), 0);
}

/** Writes a file: rows here and there hold random weights, the rest is a hole of zeros. */
export function writeShape(path: string, shape: Shape, core: Core): void {
  const header = headerOf(shape, shape.cut);
  const fd = openSync(path, "w");
  writeSync(fd, header.bytes);
  ftruncateSync(fd, header.fileSize);
  tensorsOf(shape, shape.cut).forEach((t, i) => {
    const [at, size] = [header.offsets[i]!, header.nBytes[i]!];
    const piece = bits(t, core);
    const row = size / (elements([t]) / t.ne[0]!);
    const stripe = Math.max(row * Math.ceil(size / row / STRIPES), row * Math.ceil(piece.length / row));
    for (let from = 0; from < size; from += stripe)
      writeSync(fd, piece, 0, Math.min(piece.length, size - from), at + from);
  });
  closeSync(fd);
}

const pieces = new Map<string, Uint8Array>();

// A prime number of blocks, so that no two rows of a matrix are alike.
const PIECE = 1021;

// Random blocks of a type; around 1 for the weights of a norm.
function bits({ name, type }: TensorHeader, core: Core): Uint8Array {
  const norm = name.includes("norm") && name.endsWith(".weight");
  const key = `${type} ${norm}`;
  const known = pieces.get(key);
  if (known !== undefined) return known;
  const { blockSize } = typeInfo(type)!;
  const x = samples(PIECE * blockSize, stream(type + 1)).map((v) => (norm ? 1 : 0) + 0.1 * v);
  core.reset();
  const made = core.quantize(type, x);
  pieces.set(key, made);
  return made;
}
