// The key-value cache: per layer one row per position, written by set_rows, read by attention.

import { Flag } from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import { leaf, type Tensor } from "../graph/tensor.ts";
import { rowBytes } from "../shape.ts";
import { Type, typeInfo, typeName } from "../types.ts";
import type { Params } from "./params.ts";

/**
 * Element types a cache can have. Blocks of Q8_0 and Q4_0 take about half and a quarter of the memory of F16. Q8_0 costs
 * next to nothing in likelihood; four bits are few for keys, and small models suffer.
 */
export type KvType = Type.F16 | Type.F32 | Type.Q8_0 | Type.Q4_0;

const KV_TYPES: readonly Type[] = [Type.F16, Type.F32, Type.Q8_0, Type.Q4_0];

/**
 * Checks a type for the keys and values of a model: heads are made of whole blocks.
 *
 * @throws {GraphError} bad-param
 */
export function checkKvType(p: Params, type: Type): void {
  const known = KV_TYPES.map((t) => `Type.${typeName(t)}`).join(", ");
  if (!KV_TYPES.includes(type)) {
    throw new GraphError("bad-param", `model: kvType, expected one of ${known}`, { actual: type });
  }
  const { blockSize } = typeInfo(type)!;
  for (const d of [p.headDimK, p.headDimV]) {
    if (d % blockSize === 0) continue;
    const text = `model: kvType ${typeName(type)} needs heads of a multiple of ${blockSize}; this model has ${d}`;
    throw new GraphError("bad-param", text, { expected: blockSize, actual: d });
  }
}

/** Leafs of a cache; the engine gives them memory. */
export interface KvCache {
  /** positions it holds */
  readonly nCtx: number;
  /** per layer, keys after rope [headDimK * nHeadKv, nCtx]; of a convolution what it reads, F32 [nEmbd, nCtx] */
  readonly k: readonly Tensor[];
  /** per layer, values [headDimV * nHeadKv, nCtx]; absent where keys hold all */
  readonly v: readonly (Tensor | undefined)[];
}

/** What a layer keeps of a position. */
interface LayerRows {
  readonly kType: Type;
  readonly k: number;
  /** 0 = no values beside the keys */
  readonly v: number;
}

function layerRows(p: Params, type: KvType): readonly LayerRows[] {
  const k = p.headDimK * p.nHeadKv;
  const v = p.latent?.absorbed ? 0 : p.headDimV * p.nHeadKv;
  return p.layers.map(({ taps }) =>
    taps === undefined ? { kType: type, k, v } : { kType: Type.F32, k: p.nEmbd, v: 0 },
  );
}

/** Leafs of a cache for `nCtx` positions. */
export function kvCache(p: Params, nCtx: number, type: KvType): KvCache {
  const rows = (name: string, rowType: Type, width: number): Tensor => {
    const t = leaf(name, rowType, [width, nCtx]);
    t.flags |= Flag.EXTERNAL;
    return t;
  };
  const layers = layerRows(p, type);
  return {
    nCtx,
    k: layers.map(({ kType, k }, i) => rows(`cache_k.${i}`, kType, k)),
    v: layers.map(({ v }, i) => (v === 0 ? undefined : rows(`cache_v.${i}`, type, v))),
  };
}

/** All leafs of a cache, in the order they lie in memory. */
export function cacheTensors(cache: KvCache): Tensor[] {
  return cache.k.flatMap((k, i) => [k, cache.v[i]]).filter((t) => t !== undefined);
}

/** Bytes that one position takes over all layers, before alignment. */
export function kvBytesPerPosition(p: Params, type: KvType): number {
  return layerRows(p, type).reduce((sum, { kType, k, v }) => sum + rowBytes(kType, k) + rowBytes(type, v), 0);
}
