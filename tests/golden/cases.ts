// A file of golden vectors: the cases with their parameters, and the tensors that belong to them.

import { type GgufFile, GgufType, parseGguf } from "../../ts/gguf/index.ts";
import { shape4 } from "../../ts/shape.ts";
import type { Tolerance, Values } from "./compare.ts";

/** An operand of an operator case: the stored tensor, or a view of it. */
export interface OperandSpec {
  readonly base: string;
  readonly type: string;
  readonly ne: readonly number[];
  readonly nb: readonly number[];
  readonly offs: number;
  readonly view: boolean;
}

/** A case of one operator. */
export interface OpSpec {
  readonly op: string;
  readonly ggml_op: string;
  readonly type: string;
  readonly ne: readonly number[];
  readonly src: readonly (OperandSpec | null)[];
  readonly op_params: readonly number[];
  readonly tol: Tolerance;
}

/** A tensor of a whole graph. */
export interface GraphTensor {
  readonly id: number;
  readonly op: string;
  readonly ggml_op: string;
  readonly type: string;
  readonly ne: readonly number[];
  readonly nb: readonly number[];
  readonly src: readonly (number | null)[];
  readonly view_src: number | null;
  readonly view_offs: number;
  readonly op_params: readonly number[];
}

/** A whole graph. */
export interface GraphSpec {
  readonly op: "GRAPH";
  readonly n_leafs: number;
  readonly outputs: readonly number[];
  readonly tensors: readonly GraphTensor[];
  readonly tol: Tolerance;
}

/** A quantizer or dequantizer case. */
export interface QuantSpec {
  readonly op: "QUANTIZE" | "DEQUANTIZE";
  readonly qtype: string;
  readonly n: number;
  readonly how?: string;
  readonly rmse?: number;
}

export type Spec = OpSpec | GraphSpec | QuantSpec;

/** One case and access to its tensors. */
export interface Case {
  readonly name: string;
  readonly spec: Spec;
  /** a tensor of the case, by the name after the case's */
  tensor(name: string): Values;
  /** the same, undefined when the file has none */
  optional(name: string): Values | undefined;
}

function text(file: GgufFile, key: string): string {
  const value = file.metadata.get(key);
  if (value?.type !== GgufType.STRING) throw new Error(`${key}: expected a string`);
  return value.value;
}

function names(file: GgufFile): string[] {
  const value = file.metadata.get("golden.cases");
  if (value?.type !== GgufType.ARRAY || value.elementType !== GgufType.STRING)
    throw new Error("golden.cases: expected strings");
  return [...value.value];
}

/** Cases of one file; `label` is its name. */
export function* casesOf(bytes: Uint8Array, label: string): Generator<Case> {
  const file = parseGguf(bytes, bytes.length, label);
  for (const name of names(file)) {
    const optional = (tensor: string): Values | undefined => {
      const info = file.tensorByName.get(`${name}/${tensor}`);
      if (info === undefined) return undefined;
      return {
        type: info.type,
        ne: shape4(info.ne),
        bytes: bytes.subarray(info.offset, info.offset + info.nBytes),
      };
    };
    const tensor = (t: string): Values => {
      const found = optional(t);
      if (found === undefined) throw new Error(`${label}: no tensor ${name}/${t}`);
      return found;
    };
    yield { name, spec: JSON.parse(text(file, `${name}.params`)) as Spec, tensor, optional };
  }
}
