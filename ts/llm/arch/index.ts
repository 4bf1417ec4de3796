// The architectures that can be run, by the name in general.architecture.

import { FormatError } from "../../errors.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import type { Graph } from "../../graph/graph.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { Type } from "../../types.ts";
import { type BatchInputs, batchInputs } from "../batch.ts";
import { type KvCache, kvCache } from "../cache.ts";
import { hparam } from "../hparam.ts";
import type { Metadata } from "../metadata.ts";
import { type Params, readArch } from "../params.ts";
import { FileWeights, LoadedWeights, type StoredTensor } from "../weights.ts";
import type { Arch } from "./arch.ts";
import { cohere2 } from "./cohere2.ts";
import { exaone4 } from "./exaone4.ts";
import { falcon } from "./falcon.ts";
import { gemma } from "./gemma.ts";
import { gemma2 } from "./gemma2.ts";
import { gemma3 } from "./gemma3.ts";
import { glm4 } from "./glm4.ts";
import { gptOss } from "./gpt_oss.ts";
import { gpt2 } from "./gpt2.ts";
import { gptneox } from "./gptneox.ts";
import { granite, granitemoe } from "./granite.ts";
import { llama } from "./llama.ts";
import { mistral3 } from "./mistral3.ts";
import { olmo2 } from "./olmo2.ts";
import { olmoe } from "./olmoe.ts";
import { phi2 } from "./phi2.ts";
import { phi3 } from "./phi3.ts";
import { qwen2 } from "./qwen2.ts";
import { qwen2moe } from "./qwen2moe.ts";
import { qwen3 } from "./qwen3.ts";
import { qwen3moe } from "./qwen3moe.ts";
import { smollm3 } from "./smollm3.ts";
import { stablelm } from "./stablelm.ts";
import { starcoder2 } from "./starcoder2.ts";
import { Net } from "./net.ts";

/** Builds the graph of one batch; the result are the logits [nVocab, nOut], marked as output. */
export type BuildGraph = (
  g: Graph,
  p: Params,
  weights: ReadonlyMap<string, Tensor>,
  cache: KvCache,
  batch: BatchInputs,
) => Tensor;

const ARCHS: ReadonlyMap<string, Arch> = new Map(
  Object.entries({
    llama,
    qwen2,
    qwen2moe,
    qwen3,
    qwen3moe,
    gemma,
    gemma2,
    gemma3,
    phi2,
    phi3,
    gpt2,
    gptneox,
    falcon,
    starcoder2,
    stablelm,
    granite,
    cohere2,
    smollm3,
    glm4,
    olmo2,
    olmoe,
    exaone4,
    mistral3,
    granitemoe,
    "gpt-oss": gptOss,
  }),
);

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
 * Checks the file's tensors against its parameters, by building its graph over them; nothing of their data is read.
 *
 * @throws {FormatError} missing-tensor, shape-mismatch, vocab-mismatch, unsupported-type, unsupported-arch, bad-hparam
 */
export function loadTensors<T extends StoredTensor>(params: Params, tensors: Iterable<T>): Map<string, T> {
  const arch = archOf(params.arch);
  const weights = new FileWeights(tensors);
  const g = new GraphBuilder();
  const net = new Net({
    g,
    p: params,
    weights,
    batch: batchInputs(g, 1, 1),
    cache: kvCache(params, 1, Type.F32),
    nCtx: 1,
  });
  const rows = arch.rows(net);
  arch.logits?.(net, rows);
  const used = weights.used(
    params.arch,
    (name) => layerOf(name) >= params.nLayer && layerOf(name) < params.nLayer + params.nPredictLayers,
  );
  if (arch.wholeHeads === true && params.nRot !== params.headDimK) {
    const key = `${params.arch}.rope.dimension_count`;
    throw hparam(key, params.nRot, `the head size ${params.headDimK}`);
  }
  return used;
}

// Number of the layer that a weight belongs to; -1 = none.
function layerOf(name: string): number {
  return Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? -1);
}

/** The graph of a batch over the cache, for an architecture by its name. @throws {FormatError} unsupported-arch */
export function graphOf(name: string): BuildGraph {
  const arch = archOf(name);
  return (g, p, weights, cache, batch) => {
    const net = new Net({ g, p, weights: new LoadedWeights(weights), batch, cache, nCtx: cache.nCtx });
    g.live = batch.live;
    const logits = arch.logits!(net, arch.rows(net));
    g.live = undefined;
    return logits.asOutput("logits");
  };
}

/** @throws {FormatError} unsupported-arch */
function archOf(name: string): Arch {
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
