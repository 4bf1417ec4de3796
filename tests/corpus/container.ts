// Runs one container case: opens the file by its path, and reads the tensors the manifest asks about.
import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ByteSource, type TensorInfo, openGguf } from "../../ts/gguf/index.ts";
import { judgeAccept, judgeError, judgeFile } from "./judge.ts";
import { type Entry, type Recipe, corpusDir } from "./manifest.ts";

/** Why the case fails; undefined when it passes. */
export async function runContainer(entry: Entry): Promise<string | undefined> {
  if (entry.file !== null) return check(entry, join(corpusDir(), entry.file));
  if (entry.recipe === undefined) return "neither file nor recipe";
  const folder = mkdtempSync(join(tmpdir(), "corpus-"));
  try {
    const path = join(folder, "sparse.gguf");
    makeSparse(path, entry.recipe);
    return await check(entry, path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function check({ expect }: Entry, path: string): Promise<string | undefined> {
  let opened;
  try {
    opened = await openGguf(path);
  } catch (error) {
    return judgeError(expect, error);
  }
  const { file, source } = opened;
  try {
    return judgeAccept(expect) ?? (await judgeFile(expect, file, (tensor) => readTensor(source, tensor)));
  } finally {
    await source.close();
  }
}

/** Bytes of one tensor. */
export async function readTensor(source: ByteSource, tensor: TensorInfo): Promise<Uint8Array> {
  const { name, offset, nBytes } = tensor;
  const bytes = new Uint8Array(nBytes);
  await source.load([{ name, offset, nBytes, into: () => bytes }]);
  return bytes;
}

/** Makes a file that is holes but for the given bytes. */
export function makeSparse(path: string, recipe: Recipe): void {
  const fd = openSync(path, "w");
  try {
    ftruncateSync(fd, recipe.size);
    for (const [position, hex] of recipe.writes) {
      const bytes = Buffer.from(hex, "hex");
      writeSync(fd, bytes, 0, bytes.length, position);
    }
  } finally {
    closeSync(fd);
  }
}
