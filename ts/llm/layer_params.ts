// What may differ from layer to layer: the window of attention and the rotation; and the patterns in which it does.

import { positive, within } from "./hparam.ts";
import type { Metadata } from "./metadata.ts";
import type { Rope } from "./rope_scaling.ts";

/** What may differ from layer to layer. */
export interface LayerParams {
  /** positions that a token sees, its own included; 0 = all. In an encoder: window / 2 on each side */
  readonly window: number;
  /** rotation of queries and keys; undefined = none */
  readonly rope: Rope | undefined;
  /** positions that a short convolution reads in place of attention; absent: attention */
  readonly taps?: number;
}

/** The same parameters for every layer. */
export function layersAlike(nLayer: number, layer: LayerParams): readonly LayerParams[] {
  return new Array<LayerParams>(nLayer).fill(layer);
}

/** A pattern of layers that slide over a window and layers that see all. */
export interface Pattern {
  /** every so many layers one is full; 0 = none is, 1 = all are */
  readonly period: number;
  /** the full layer is the first of its period, not the last */
  readonly fullFirst?: boolean;
  readonly sliding: LayerParams;
  readonly full: LayerParams;
}

/** The parameters of `nLayer` layers in a pattern. */
export function layersByPattern(nLayer: number, pattern: Pattern): readonly LayerParams[] {
  const { period, fullFirst, sliding, full } = pattern;
  const isFull = (i: number): boolean => period > 0 && i % period === (fullFirst ? 0 : period - 1);
  return Array.from({ length: nLayer }, (_, i) => (isFull(i) ? full : sliding));
}

/** Period of a pattern: a number. A list of booleans, which some files have instead, does not count. */
export function readPeriod(meta: Metadata, arch: string, byDefault: number): number {
  const key = `${arch}.attention.sliding_window_pattern`;
  return meta.isArray(key) ? byDefault : meta.u32(key, byDefault);
}

/** Window of the layers that slide; required without a default. @throws {FormatError} missing-key, bad-hparam */
export function readWindow(meta: Metadata, arch: string, byDefault?: number): number {
  const key = `${arch}.attention.sliding_window`;
  return within(key, meta.u32(key, byDefault), 0, 2 ** 31 - 1);
}

/** Rotation of the layers that slide: a base of their own where the file has one. @throws {FormatError} bad-hparam */
export function localRope(meta: Metadata, arch: string, byDefault: Rope): Rope {
  const key = `${arch}.rope.freq_base_swa`;
  return { ...byDefault, base: positive(key, meta.f32(key, byDefault.base)) };
}
