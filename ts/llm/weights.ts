// The weights of a model: asked for by a graph with the shape it expects, found in a file's list or among loaded ones.

import { FormatError } from "../errors.ts";
import { leaf, type Tensor } from "../graph/tensor.ts";
import { TABLES } from "../ops/get_rows.ts";
import { WEIGHTS } from "../ops/mul_mat.ts";
import { Type, typeName } from "../types.ts";

/** What is read here of a file's tensor. `type` is GGUF's number, `ne` innermost first. */
export interface StoredTensor {
  readonly name: string;
  readonly type: number;
  readonly ne: readonly number[];
}

/** What a weight is used for, which decides its types: products, rows by index, or elementwise. */
export type Use = "matrix" | "table" | "vector";

/** One weight as a graph wants it. */
export interface WeightSpec {
  readonly name: string;
  readonly use: Use;
  /** innermost first, without trailing ones */
  readonly ne: readonly number[];
  /** its rows are tokens: a wrong count is a vocabulary mismatch */
  readonly perToken?: boolean;
}

/** Where a graph gets its weights. */
export interface Weights {
  /** Is there a tensor of this name? */
  has(name: string): boolean;
  /** ne[1] of a weight that may have any; 1 when there is none */
  rows(name: string): number;
  /** @throws {FormatError} missing-tensor, shape-mismatch, vocab-mismatch, unsupported-type */
  get(spec: WeightSpec): Tensor;
}

const TYPES: Readonly<Record<Use, readonly Type[]>> = {
  matrix: WEIGHTS,
  table: TABLES.filter((type) => type !== Type.I32),
  vector: [Type.F32, Type.F16, Type.BF16],
};

/** Type that a weight has in memory. Vectors in half precision become F32: kernels want norms and biases so. */
export function loadedType({ type, ne }: StoredTensor): Type {
  const vector = ne.every((n, i) => i === 0 || n === 1);
  return vector && (type === Type.F16 || type === Type.BF16) ? Type.F32 : (type as Type);
}

/** The tensors of a file, each checked when it is asked for. Nothing of their data is read. */
export class FileWeights<T extends StoredTensor> implements Weights {
  readonly #byName = new Map<string, T>();
  readonly #used = new Map<string, T>();

  constructor(tensors: Iterable<T>) {
    for (const tensor of tensors) this.#byName.set(tensor.name, tensor);
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  rows(name: string): number {
    return this.#byName.get(name)?.ne[1] ?? 1;
  }

  get(spec: WeightSpec): Tensor {
    const tensor = this.#byName.get(spec.name);
    if (tensor === undefined) throw missingTensor(spec);
    checkShape(tensor, spec);
    checkType(tensor, spec);
    this.#used.set(spec.name, tensor);
    return leaf(spec.name, loadedType(tensor), tensor.ne);
  }

  /**
   * The tensors that were asked for, in that order. Others, unless they may be `ignored`, mean that the file computes
   * something else than the architecture it names.
   *
   * @throws {FormatError} unsupported-arch
   */
  used(arch: string, ignored: (name: string) => boolean): Map<string, T> {
    for (const name of this.#byName.keys()) {
      if (!this.#used.has(name) && !ignored(name))
        throw new FormatError("unsupported-arch", `${name}: not a tensor of architecture ${arch}`, {
          tensor: name,
        });
    }
    return this.#used;
  }
}

/** Leafs with the names and types of a file's tensors, in the shapes that are asked for. */
export class ShapedWeights implements Weights {
  /** those that were asked for */
  readonly used: Map<string, Tensor> = new Map();
  readonly #types = new Map<string, Type>();

  constructor(tensors: Iterable<StoredTensor>) {
    for (const tensor of tensors) this.#types.set(tensor.name, loadedType(tensor));
  }

  has(name: string): boolean {
    return this.#types.has(name);
  }

  rows(): number {
    return 1;
  }

  get(spec: WeightSpec): Tensor {
    const type = this.#types.get(spec.name);
    if (type === undefined) throw missingTensor(spec);
    const t = this.used.get(spec.name) ?? leaf(spec.name, type, spec.ne);
    this.used.set(spec.name, t);
    return t;
  }
}

/** The weights of a model whose file has been checked. */
export class LoadedWeights implements Weights {
  readonly #byName: ReadonlyMap<string, Tensor>;

  constructor(byName: ReadonlyMap<string, Tensor>) {
    this.#byName = byName;
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  rows(name: string): number {
    return this.#byName.get(name)?.ne[1] ?? 1;
  }

  get(spec: WeightSpec): Tensor {
    const t = this.#byName.get(spec.name);
    if (t === undefined) throw missingTensor(spec);
    return t;
  }
}

function missingTensor({ name, ne }: WeightSpec): FormatError {
  return new FormatError("missing-tensor", `${name}: missing, expected [${ne.join(",")}]`, {
    tensor: name,
    expected: ne,
  });
}

function checkType(tensor: StoredTensor, { use }: WeightSpec): void {
  if (TYPES[use].includes(tensor.type as Type)) return;
  const found = typeName(tensor.type);
  const expected = TYPES[use].map(typeName).join(", ");
  throw new FormatError("unsupported-type", `${tensor.name}: ${found}, expected one of ${expected}`, {
    tensor: tensor.name,
    expected,
    actual: found,
  });
}

function checkShape(tensor: StoredTensor, spec: WeightSpec): void {
  const dims = Math.max(tensor.ne.length, spec.ne.length);
  for (let i = 0; i < dims; i++) {
    const expected = spec.ne[i] ?? 1;
    const actual = tensor.ne[i] ?? 1;
    if (actual === expected) continue;
    const code = spec.perToken === true && i === 1 ? "vocab-mismatch" : "shape-mismatch";
    throw new FormatError(
      code,
      `${tensor.name}: expected [${spec.ne.join(",")}], found [${trimmed(tensor.ne).join(",")}]`,
      {
        tensor: tensor.name,
        expected: spec.ne,
        actual: tensor.ne,
      },
    );
  }
}

/** Dimensions without trailing ones. */
function trimmed(ne: readonly number[]): readonly number[] {
  return ne.slice(0, ne.findLastIndex((n) => n !== 1) + 1);
}
