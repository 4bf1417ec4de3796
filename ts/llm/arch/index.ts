// From a file's header to graphs: parameters, the check of the tensors, and what builds a model's graphs.

import { FormatError, GraphError } from "../../errors.ts";
import { GraphBuilder } from "../../graph/builder.ts";
import type { Graph } from "../../graph/graph.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { Type } from "../../types.ts";
import { type BatchInputs, batchInputs, textInputs } from "../batch.ts";
import { type KvCache, kvCache } from "../cache.ts";
import { hparam } from "../hparam.ts";
import type { Metadata } from "../metadata.ts";
import { type Params, type Pooling, readArch } from "../params.ts";
import { FileWeights, LoadedWeights, ShapedWeights, type StoredTensor, type Weights } from "../weights.ts";
import type { Arch } from "./arch.ts";
import { ARCHS } from "./archs.ts";
import { Net } from "./net.ts";

/** Weights by their names in the file. */
export type WeightMap = ReadonlyMap<string, Tensor>;

/**
 * Builds the graph of one batch over a cache; the result are the logits [nVocab, nOut], marked as output.
 *
 * @throws {GraphError} unsupported for a model that predicts no tokens
 */
export type BuildGraph = (
  g: Graph,
  p: Params,
  weights: WeightMap,
  cache: KvCache,
  batch: BatchInputs,
) => Tensor;

/** Builds the graphs of embeddings. */
export interface EmbeddingBuild {
  /** how rows are pooled for a classifier */
  readonly rankBy: Pooling;
  /** rows of the last layer of texts that lie whole in the batch: [E, O] */
  rows(g: Graph, p: Params, weights: WeightMap, batch: BatchInputs, nCtx: number): Tensor;
  /**
   * What pooled rows x [E, S] go through, `live` of which hold data; undefined = nothing.
   *
   * @throws {GraphError} unsupported when scores are asked for and the architecture has no classifier
   */
  pooled(
    g: Graph,
    p: Params,
    weights: WeightMap,
    x: Tensor,
    live: Tensor,
    scores: boolean,
  ): Tensor | undefined;
}

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
 * Checks the file's tensors against its parameters, by building its graphs over them; nothing of their data is read.
 *
 * @throws {FormatError} missing-tensor, shape-mismatch, vocab-mismatch, unsupported-type, unsupported-arch, bad-hparam
 */
export function loadTensors<T extends StoredTensor>(p: Params, tensors: Iterable<T>): Map<string, T> {
  const weights = new FileWeights(tensors);
  askAll(p, weights);
  const used = weights.used(p.arch, (name) => isPredictLayer(name, p));
  if (archOf(p.arch).wholeHeads === true && p.nRot !== p.headDimK) {
    throw hparam(`${p.arch}.rope.dimension_count`, p.nRot, `the head size ${p.headDimK}`);
  }
  return used;
}

/**
 * Leafs for a model of other sizes than the file's: names and types as in the file, shapes as the parameters want them.
 *
 * @throws as {@link loadTensors}; {@link GraphError} where the sizes do not go together
 */
export function leafsFor(p: Params, tensors: Iterable<StoredTensor>): Map<string, Tensor> {
  const weights = new ShapedWeights(tensors);
  askAll(p, weights);
  return weights.used;
}

// Builds the graphs of an architecture, which asks for its weights.
function askAll(p: Params, weights: Weights): void {
  const arch = archOf(p.arch);
  const g = new GraphBuilder();
  const net = new Net(
    p.causal
      ? { g, p, weights, batch: batchInputs(g, 1, 1), cache: kvCache(p, 1, Type.F32), nCtx: 1 }
      : { g, p, weights, batch: textInputs(g, 1), cache: undefined, nCtx: 1 },
  );
  const rows = arch.rows(net);
  arch.logits?.(net, rows);
  arch.project?.(net, rows);
  if (p.pooling === "rank" || net.has("cls.weight") || net.has("cls.output.weight"))
    arch.classify?.(net, rows);
}

// Is it a weight of the layers that predict further tokens?
function isPredictLayer(name: string, { nLayer, nPredictLayers }: Params): boolean {
  const layer = Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? -1);
  return layer >= nLayer && layer < nLayer + nPredictLayers;
}

/** Logits of a batch over the cache, for an architecture by its name. @throws {FormatError} unsupported-arch */
export function graphOf(name: string): BuildGraph {
  const arch = archOf(name);
  return (g, p, weights, cache, batch) => {
    const { logits } = arch;
    if (logits === undefined) throw new GraphError("unsupported", `${name}: an encoder predicts no tokens`);
    const net = new Net({ g, p, weights: new LoadedWeights(weights), batch, cache, nCtx: cache.nCtx });
    return withLive(g, batch.live, () => logits(net, arch.rows(net))).asOutput("logits");
  };
}

/** Embeddings, for an architecture by its name. @throws {FormatError} unsupported-arch */
export function embeddingOf(name: string): EmbeddingBuild {
  const arch = archOf(name);
  const netOf = (g: Graph, p: Params, weights: WeightMap, batch: BatchInputs, nCtx: number): Net =>
    new Net({ g, p, weights: new LoadedWeights(weights), batch, cache: undefined, nCtx });
  return {
    rankBy: arch.rankBy ?? "cls",
    rows: (g, p, weights, batch, nCtx) =>
      withLive(g, batch.live, () => arch.rows(netOf(g, p, weights, batch, nCtx))),
    pooled(g, p, weights, x, live, scores) {
      const through = scores ? arch.classify : arch.project;
      if (through === undefined && scores) throw new GraphError("unsupported", `${name}: no classifier`);
      if (through === undefined) return undefined;
      const net = netOf(g, p, weights, textInputs(g, 1), 1); // no texts reach this graph
      const y = withLive(g, live, () => through(net, x));
      return y === x ? undefined : y;
    },
  };
}

// Builds nodes that compute the live columns of a batch only.
function withLive(g: Graph, live: Tensor | undefined, build: () => Tensor): Tensor {
  g.live = live;
  try {
    return build();
  } finally {
    g.live = undefined;
  }
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
