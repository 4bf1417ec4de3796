// A GGUF file in another type: header first, then tensor by tensor, so that neither file is ever held.

import { checkOptions, FormatError } from "../../errors.ts";
import {
  type ByteSource,
  type GgufFile,
  ggufHeader,
  GgufType,
  type MetaValue,
  openGguf,
  type SourceInput,
  type TensorInfo,
} from "../../gguf/index.ts";
import { createEngine, type Engine } from "../../runtime/engine.ts";
import { isQuantized, type Type, typeName } from "../../types.ts";
import type { ProgressListener } from "../generate.ts";
import { Metadata } from "../metadata.ts";
import { Converter, readPart } from "./convert.ts";
import { type Importance, readImportance } from "./importance.ts";
import { type Mixture, mixtureOf, type ModelFacts, tensorType } from "./mixture.ts";

/** Options of {@link quantizeGguf}. */
export interface QuantizeOptions {
  /** every matrix in the type itself, not in a mixture */
  readonly pure?: boolean | undefined;
  /** also tensors that are quantised already, which loses more; otherwise they are refused */
  readonly requantize?: boolean | undefined;
  /** a file of llama.cpp's imatrix tool (GGUF): errors count by how large the activations are that they meet */
  readonly importance?: SourceInput | undefined;
  readonly nThreads?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ProgressListener | undefined;
}

/** What became of a file. */
export interface QuantizeReport {
  /** bytes of the new file */
  readonly nBytes: number;
  /** its tensors by type */
  readonly tensors: Readonly<Record<string, number>>;
}

const OPTIONS = ["pure", "requantize", "importance", "nThreads", "signal", "onProgress"];

/** Bytes of a tensor that is copied, at once. */
const PIECE_BYTES = 2 ** 22;
const QUANTIZATION_VERSION = 2;

/**
 * Quantises a model: yields the new file's bytes in order. Types are those that llama.cpp gives under the same name:
 * F32, F16, BF16, Q4_0 ... Q8_0, Q2_K, Q3_K_S ... Q6_K, IQ4_NL, IQ4_XS, MXFP4_MOE; Q4_K means Q4_K_M. A few megabytes
 * are held. An address that is streamed cannot be read this way: save it first.
 *
 * @throws {TypeError} for a type or an option that is none
 * @throws {FormatError} for a bad file; unsupported-type for a tensor that cannot be read or is quantised already
 * @throws {DeviceError} io; the reason of `signal`
 */
export async function* quantizeGguf(
  input: SourceInput,
  type: string,
  options: QuantizeOptions = {},
): AsyncGenerator<Uint8Array, QuantizeReport, undefined> {
  checkOptions("quantizeGguf", options, OPTIONS);
  const mixture = mixtureOf(type);
  const { signal, nThreads } = options;
  const importance =
    options.importance === undefined ? undefined : await readImportance(options.importance, signal);
  const { file, source } = await openGguf(input, { signal });
  let engine: Engine | undefined;
  try {
    const types = targetTypes(file, mixture, importance !== undefined, options);
    engine = await createEngine({ nThreads });
    await engine.arrived;
    const converter = new Converter(engine);
    const parts = { file, types, metadata: metadataOf(file, mixture), importance };
    return yield* chunks(parts, converter, source, options);
  } finally {
    engine?.dispose();
    await source.close();
  }
}

interface Parts {
  readonly file: GgufFile;
  /** by tensor, in the file's order */
  readonly types: readonly Type[];
  readonly metadata: ReadonlyMap<string, MetaValue>;
  readonly importance: Importance | undefined;
}

async function* chunks(
  { file, types, metadata, importance }: Parts,
  converter: Converter,
  source: ByteSource,
  { signal, onProgress }: QuantizeOptions,
): AsyncGenerator<Uint8Array, QuantizeReport, undefined> {
  const tensors = file.tensors.map(({ name, ne, nDims }, i) => ({ name, ne, nDims, type: types[i]! }));
  const header = ggufHeader(metadata, tensors);
  yield header.bytes;
  const total = file.tensors.reduce((sum, t) => sum + t.nBytes, 0);
  const counts: Record<string, number> = {};
  let loaded = 0;
  for (const [i, t] of file.tensors.entries()) {
    const type = types[i]!;
    if (type === t.type) yield* copied(source, t, signal);
    else yield* converter.convert(source, t, type, importance?.get(t.name), signal);
    const padding = (header.offsets[i + 1] ?? header.fileSize) - header.offsets[i]! - header.nBytes[i]!;
    if (padding > 0) yield new Uint8Array(padding);
    counts[typeName(type)] = (counts[typeName(type)] ?? 0) + 1;
    loaded += t.nBytes;
    onProgress?.({ phase: "quantize", loaded, total });
  }
  return { nBytes: header.fileSize, tensors: counts };
}

async function* copied(
  source: ByteSource,
  t: TensorInfo,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  for (let at = 0; at < t.nBytes; at += PIECE_BYTES) {
    yield (await readPart(source, t, at, Math.min(PIECE_BYTES, t.nBytes - at), signal)).slice();
  }
}

function targetTypes(
  file: GgufFile,
  mixture: Mixture,
  weighed: boolean,
  { pure, requantize }: QuantizeOptions,
): Type[] {
  const facts = modelFacts(file, weighed);
  return file.tensors.map((t) => {
    const type = tensorType(t, mixture, facts, pure);
    if (type === t.type || !isQuantized(t.type) || requantize === true) return type;
    throw new FormatError(
      "unsupported-type",
      `${t.name}: ${typeName(t.type)} is quantised already; requantize to allow it`,
      { tensor: t.name, expected: "F32, F16 or BF16", actual: typeName(t.type) },
    );
  });
}

function modelFacts(file: GgufFile, weighed: boolean): ModelFacts {
  const meta = new Metadata(file.metadata);
  const arch = meta.str("general.architecture");
  const one = (key: string, fallback: number): number =>
    meta.isArray(`${arch}.${key}`) ? fallback : meta.u32(`${arch}.${key}`, fallback);
  const nHead = one("attention.head_count", 1);
  return {
    arch,
    nLayer: one("block_count", 1),
    nGqa: nHead / Math.max(1, one("attention.head_count_kv", nHead)),
    nExpert: one("expert_count", 0),
    hasOutput: file.tensorByName.has("output.weight"),
    weighed,
  };
}

function metadataOf(file: GgufFile, { fileType }: Mixture): Map<string, MetaValue> {
  const metadata = new Map<string, MetaValue>();
  // A file in parts becomes one file.
  for (const [key, value] of file.metadata) if (!key.startsWith("split.")) metadata.set(key, value);
  const u32 = (value: number): MetaValue => ({ type: GgufType.UINT32, value });
  metadata.set("general.file_type", u32(fileType));
  return metadata.set("general.quantization_version", u32(QUANTIZATION_VERSION));
}
