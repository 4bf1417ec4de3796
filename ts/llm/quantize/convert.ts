// Rows of a tensor from one type to another on an engine, a piece at a time: what is held does not grow with the tensor.

import { FormatError, GraphError } from "../../errors.ts";
import type { Graph } from "../../graph/graph.ts";
import type { Tensor } from "../../graph/tensor.ts";
import type { ByteSource, TensorInfo } from "../../gguf/index.ts";
import type { Engine } from "../../runtime/engine.ts";
import { rowBytes } from "../../shape.ts";
import { Type, typeName } from "../../types.ts";

/** Elements that are converted at once, unless a row is longer. */
const PIECE = 2 ** 20;

/** A planned conversion of some rows. */
interface Step {
  readonly key: string;
  readonly graph: Graph;
  readonly x: Tensor;
  readonly importance: Tensor | undefined;
  readonly y: Tensor;
}

/** Converts tensors one after the other. Dispose it. */
export class Converter {
  readonly #engine: Engine;
  #step: Step | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * Bytes of a tensor in another type, in order.
   *
   * @param importance a row for all rows of the tensor, or one for each of its planes
   * @throws {FormatError} unsupported-type, truncated, shape-mismatch
   */
  async *convert(
    source: ByteSource,
    t: TensorInfo,
    type: Type,
    importance?: readonly Float32Array[],
    signal?: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const [width, height = 1, ...rest] = t.ne as readonly [number, ...number[]];
    const rows = rest.reduce((a, b) => a * b, height);
    checkImportance(t, importance);
    const each = (importance?.length ?? 1) > 1 ? height : rows; // rows that have one importance
    const nRows = Math.min(each, Math.max(1, Math.floor(PIECE / width)));
    for (let row = 0; row < rows;) {
      signal?.throwIfAborted();
      const n = Math.min(nRows, each - (row % each));
      const bytes = await readRows(source, t, row, n, signal);
      yield await this.#convert(t, type, nRows, bytes, n, importance?.[Math.floor(row / each)]);
      row += n;
    }
  }

  dispose(): void {
    this.#step?.graph.dispose();
    this.#step = undefined;
  }

  async #convert(
    t: TensorInfo,
    type: Type,
    nRows: number,
    bytes: Uint8Array,
    n: number,
    importance: Float32Array | undefined,
  ): Promise<Uint8Array> {
    const step = this.#stepFor(t, type, nRows, importance !== undefined);
    const padded = n === nRows ? bytes : padTo(bytes, rowBytes(t.type, t.ne[0]!) * nRows);
    step.x.write(padded);
    if (importance !== undefined) step.importance!.write(importance);
    await step.graph.compute();
    return (await step.y.readBytes()).subarray(0, n * rowBytes(type, t.ne[0]!));
  }

  #stepFor(t: TensorInfo, type: Type, nRows: number, weighed: boolean): Step {
    const width = t.ne[0]!;
    const key = [t.type, type, width, nRows, weighed].join();
    if (this.#step?.key === key) return this.#step;
    this.dispose();
    const graph = this.#engine.graph();
    try {
      const x = graph.input("x", t.type, [width, nRows]);
      const importance = weighed ? graph.input("importance", Type.F32, [width]) : undefined;
      const floats = t.type === Type.F32 || (!weighed && isHalf(t.type)) ? x : graph.cast(x, Type.F32);
      const y = (type === Type.F32 ? floats : graph.cast(floats, type, importance)).asOutput();
      graph.plan();
      this.#step = { key, graph, x, importance, y };
      return this.#step;
    } catch (error) {
      graph.dispose();
      throw error instanceof GraphError ? unsupported(t, type, error) : error;
    }
  }
}

function isHalf(type: Type): boolean {
  return type === Type.F16 || type === Type.BF16;
}

async function readRows(
  source: ByteSource,
  t: TensorInfo,
  row: number,
  n: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const size = rowBytes(t.type, t.ne[0]!);
  return readPart(source, t, row * size, n * size, signal);
}

/** `length` bytes of a tensor from byte `at` of it on. @throws {FormatError} truncated */
export async function readPart(
  source: ByteSource,
  t: TensorInfo,
  at: number,
  length: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const bytes = await source.read(t.offset + at, length, signal);
  if (bytes.length === length) return bytes;
  const actual = at + bytes.length;
  throw new FormatError("truncated", `tensor "${t.name}": ${source.name} ends after ${actual} bytes of it`, {
    tensor: t.name,
    expected: t.nBytes,
    actual,
  });
}

function padTo(bytes: Uint8Array, size: number): Uint8Array {
  const padded = new Uint8Array(size);
  padded.set(bytes);
  return padded;
}

function checkImportance(t: TensorInfo, importance: readonly Float32Array[] | undefined): void {
  if (importance === undefined) return;
  const planes = (t.ne[2] ?? 1) * (t.ne[3] ?? 1);
  const fits = importance.every((row) => row.length === t.ne[0]);
  if (fits && (importance.length === 1 || importance.length === planes)) return;
  const actual = `${importance.length} rows of ${importance[0]?.length}`;
  throw new FormatError("shape-mismatch", `${t.name}: its importance has ${actual}`, {
    tensor: t.name,
    expected: t.ne,
    actual,
  });
}

function unsupported(t: TensorInfo, type: Type, cause: GraphError): FormatError {
  const text = `${t.name}: cannot convert ${typeName(t.type)} to ${typeName(type)}`;
  return new FormatError("unsupported-type", text, { tensor: t.name, actual: typeName(t.type), cause });
}
