// Which weights a model must have, with their shapes; and the check of a file's tensors against that list.

import { FormatError } from "../errors.ts";
import { Type, typeInfo, typeName } from "../types.ts";

/** What is read here of a file's tensor. `type` is GGUF's number, `ne` innermost first. */
export interface StoredTensor {
  readonly name: string;
  readonly type: number;
  readonly ne: readonly number[];
}

/** One weight of an architecture. */
export interface TensorSpec {
  readonly name: string;
  /** innermost first, without trailing ones */
  readonly ne: readonly number[];
  readonly optional: boolean;
  /** its rows are tokens: a wrong count is a vocabulary mismatch */
  readonly perToken: boolean;
}

/** Is there a tensor of this name? Lets a list depend on which of two forms a file has. */
export type Has = (name: string) => boolean;

/** A required weight. One dimension: a norm, bias or factor vector (F32, or F16/BF16 to be widened at load). */
export function weight(name: string, ...ne: number[]): TensorSpec {
  return { name, ne, optional: false, perToken: false };
}

/** A weight that may be absent. */
export function optional(name: string, ...ne: number[]): TensorSpec {
  return { name, ne, optional: true, perToken: false };
}

/** A weight with one row per token. */
export function perToken(spec: TensorSpec): TensorSpec {
  return { ...spec, perToken: true };
}

/**
 * Checks every weight of the list, and that the file has no others: an unknown one means that the file computes
 * something else than the architecture it names.
 *
 * @returns the tensors that the model uses, by name
 * @throws {FormatError} missing-tensor, shape-mismatch, vocab-mismatch, unsupported-type, unsupported-arch
 */
export function checkTensors<T extends StoredTensor>(
  tensors: Iterable<T>,
  specs: readonly TensorSpec[],
  arch: string,
): Map<string, T> {
  const byName = new Map<string, T>();
  for (const tensor of tensors) byName.set(tensor.name, tensor);
  const used = new Map<string, T>();
  for (const spec of specs) {
    const tensor = byName.get(spec.name);
    if (tensor !== undefined) used.set(spec.name, checked(tensor, spec));
    else if (!spec.optional) throw missingTensor(spec.name, spec.ne);
  }
  for (const name of byName.keys()) {
    if (!used.has(name))
      throw new FormatError("unsupported-arch", `${name}: not a tensor of architecture ${arch}`, {
        tensor: name,
      });
  }
  return used;
}

/** The error for an absent weight. */
export function missingTensor(name: string, ne: readonly number[]): FormatError {
  return new FormatError("missing-tensor", `${name}: missing, expected [${ne.join(",")}]`, {
    tensor: name,
    expected: ne,
  });
}

function checked<T extends StoredTensor>(tensor: T, spec: TensorSpec): T {
  checkShape(tensor, spec);
  const vector = spec.ne.length === 1;
  if (vector ? !VECTOR_TYPES.includes(tensor.type) : !isWeightType(tensor.type)) {
    const found = typeName(tensor.type);
    const expected = vector ? "F32, F16 or BF16" : "a float or block type";
    throw new FormatError("unsupported-type", `${tensor.name}: ${found}, expected ${expected}`, {
      tensor: tensor.name,
      expected,
      actual: found,
    });
  }
  return tensor;
}

function checkShape(tensor: StoredTensor, spec: TensorSpec): void {
  const dims = Math.max(tensor.ne.length, spec.ne.length);
  for (let i = 0; i < dims; i++) {
    const expected = spec.ne[i] ?? 1;
    const actual = tensor.ne[i] ?? 1;
    if (actual === expected) continue;
    const code = spec.perToken && i === 1 ? "vocab-mismatch" : "shape-mismatch";
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

const VECTOR_TYPES: readonly number[] = [Type.F32, Type.F16, Type.BF16];
/** Not weights: plain integers, doubles, and the formats of activations. */
const NO_WEIGHTS: readonly number[] = [Type.I8, Type.I16, Type.I32, Type.I64, Type.F64, Type.Q8_1, Type.Q8_K];

function isWeightType(type: number): boolean {
  return typeInfo(type) !== undefined && !NO_WEIGHTS.includes(type);
}
