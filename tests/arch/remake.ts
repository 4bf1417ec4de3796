// Golden files with other metadata, other tensors, more layers.
import { readFileSync } from "node:fs";
import { GgufType, parseGguf, type TensorData, writeGguf } from "../../ts/gguf/index.ts";
import { type Fake, metaMap } from "../meta.ts";
import { modelFile } from "./golden.ts";

/**
 * Bytes of the file with `meta` over its metadata (undefined takes a key out) and `tensors` over its tensors.
 *
 * @param from in place of the golden file
 * @param drop names of tensors to leave out
 * @param arch another architecture, also the prefix of its keys
 */
export function remake(
  name: string,
  meta: Record<string, Fake> = {},
  tensors: readonly TensorData[] = [],
  from: Uint8Array = new Uint8Array(readFileSync(modelFile(name))),
  drop?: RegExp,
  arch?: string,
): Uint8Array<ArrayBuffer> {
  const file = parseGguf(from);
  const entries = new Map(file.metadata);
  if (arch !== undefined) {
    for (const [key, value] of entries) {
      if (!key.startsWith(`${name}.`)) continue;
      entries.delete(key);
      entries.set(arch + key.slice(name.length), value);
    }
    entries.set("general.architecture", { type: GgufType.STRING, value: arch });
  }
  for (const key of Object.keys(meta)) entries.delete(key);
  for (const [key, value] of metaMap(meta)) entries.set(key, value);
  const kept = file.tensors
    .filter((t) => !tensors.some((other) => other.name === t.name) && drop?.test(t.name) !== true)
    .map(({ name: own, type, ne, offset, nBytes }) => ({
      name: own,
      type,
      ne,
      data: from.subarray(offset, offset + nBytes),
    }));
  return new Uint8Array(writeGguf(entries, [...kept, ...tensors]));
}

/** Bytes of the file with its layers repeated up to `nLayer`. */
export function deepen(name: string, nLayer: number): Uint8Array<ArrayBuffer> {
  const from = new Uint8Array(readFileSync(modelFile(name)));
  const file = parseGguf(from);
  const arch = String(file.metadata.get("general.architecture")!.value);
  const old = Number(file.metadata.get(`${arch}.block_count`)!.value);
  const further = file.tensors.flatMap((t): TensorData[] => {
    const [, layer, rest] = /^blk\.(\d+)\.(.*)$/.exec(t.name) ?? [];
    if (layer === undefined) return [];
    const copies: TensorData[] = [];
    for (let i = Number(layer) + old; i < nLayer; i += old) {
      const data = from.subarray(t.offset, t.offset + t.nBytes);
      copies.push({ name: `blk.${i}.${rest}`, type: t.type, ne: t.ne, data });
    }
    return copies;
  });
  return remake(name, { [`${arch}.block_count`]: nLayer }, further);
}
