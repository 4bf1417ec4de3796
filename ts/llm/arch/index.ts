// The architectures that can be run, by the name in general.architecture.

import { FormatError } from "../../errors.ts";
import type { Metadata } from "../metadata.ts";
import { type Params, readArch } from "../params.ts";
import { type Has, type StoredTensor, type TensorSpec, checkTensors } from "../weights.ts";
import type { Graph } from "../../graph/graph.ts";
import type { Tensor } from "../../graph/tensor.ts";
import type { BatchInputs } from "../batch.ts";
import type { KvCache } from "../cache.ts";
import { llamaParams, llamaRules, llamaTensors } from "./llama.ts";
import { llamaGraph } from "./llama_graph.ts";

/** Builds the graph of one batch; the result are the logits [nVocab, nOut], marked as output. */
export type BuildGraph = (
  g: Graph,
  p: Params,
  weights: ReadonlyMap<string, Tensor>,
  cache: KvCache,
  batch: BatchInputs,
) => Tensor;

/** What an architecture says of itself. */
export interface Arch {
  readonly params: (meta: Metadata) => Params;
  readonly tensors: (p: Params, has: Has) => TensorSpec[];
  /** what must hold beyond the shapes, checked after them */
  readonly rules: (p: Params) => void;
  readonly graph: BuildGraph;
}

const ARCHS: ReadonlyMap<string, Arch> = new Map([
  ["llama", { params: llamaParams, tensors: llamaTensors, rules: llamaRules, graph: llamaGraph }],
]);

/**
 * Hyper-parameters of the file.
 *
 * @throws {FormatError} unsupported-arch, missing-key, bad-type, bad-hparam, vocab-mismatch
 */
export function loadParams(meta: Metadata): Params {
  const name = readArch(meta);
  return archOf(name).params(meta);
}

/**
 * Checks the file's tensors against its parameters; nothing of their data is read.
 *
 * @throws {FormatError} missing-tensor, shape-mismatch, vocab-mismatch, unsupported-type, unsupported-arch, bad-hparam
 */
export function loadTensors<T extends StoredTensor>(params: Params, tensors: Iterable<T>): Map<string, T> {
  const list = [...tensors];
  const names = new Set(list.map((tensor) => tensor.name));
  const arch = archOf(params.arch);
  const used = checkTensors(
    list,
    arch.tensors(params, (name) => names.has(name)),
    params.arch,
  );
  arch.rules(params);
  return used;
}

/** @throws {FormatError} unsupported-arch */
export function archOf(name: string): Arch {
  const arch = ARCHS.get(name);
  if (arch !== undefined) return arch;
  const known = [...ARCHS.keys()].join(", ");
  throw new FormatError(
    "unsupported-arch",
    `general.architecture: "${name}" is not supported; known: ${known}`,
    {
      key: "general.architecture",
      expected: known,
      actual: name,
    },
  );
}
