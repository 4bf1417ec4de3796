// A golden file with other metadata or further tensors.
import { readFileSync } from "node:fs";
import { parseGguf } from "../../ts/gguf/index.ts";
import { type TensorData, writeGguf } from "../../ts/gguf/index.ts";
import { type Fake, metaMap } from "../meta.ts";
import { modelFile } from "./golden.ts";

/** Bytes of the file with `meta` over its metadata (undefined takes a key out) and `tensors` over its tensors. */
export function remake(
  name: string,
  meta: Record<string, Fake> = {},
  tensors: readonly TensorData[] = [],
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(readFileSync(modelFile(name)));
  const file = parseGguf(bytes);
  const entries = new Map(file.metadata);
  for (const key of Object.keys(meta)) entries.delete(key);
  for (const [key, value] of metaMap(meta)) entries.set(key, value);
  const kept = file.tensors
    .filter((t) => !tensors.some((other) => other.name === t.name))
    .map((t) => ({
      name: t.name,
      type: t.type,
      ne: t.ne,
      data: bytes.subarray(t.offset, t.offset + t.nBytes),
    }));
  return new Uint8Array(writeGguf(entries, [...kept, ...tensors]));
}
