// What must hold of every file the reader accepts, whatever its bytes, worked out apart from the reader.
import { FormatError } from "../ts/errors.ts";
import { type GgufFile, ggufHeader, parseGguf } from "../ts/gguf/index.ts";
import { typeInfo } from "../ts/types.ts";

/** What is wrong with an accepted file; undefined when nothing is. */
export function inconsistency(file: GgufFile, size: number): string | undefined {
  if (file.dataOffset > size) return "the data section starts past the end";
  const spans: [start: number, end: number][] = [];
  for (const { name, type, ne, nDims, offset, nBytes } of file.tensors) {
    const info = typeInfo(type);
    if (info === undefined || ne[0] % info.blockSize !== 0) return `${name}: type ${type}, ne[0] ${ne[0]}`;
    const elements = ne.reduce((product, n) => product * BigInt(n), 1n);
    const expected = (elements / BigInt(info.blockSize)) * BigInt(info.typeSize);
    if (BigInt(nBytes) !== expected) return `${name}: ${nBytes} bytes, expected ${expected}`;
    if (ne.slice(nDims).some((n) => n !== 1)) return `${name}: ${nDims} dimensions in ${ne.join()}`;
    if (offset < file.dataOffset || offset + nBytes > size) return `${name}: outside the file`;
    if ((offset - file.dataOffset) % file.alignment !== 0) return `${name}: not aligned`;
    if (file.tensorByName.get(name)?.offset !== offset) return `${name}: not found by name`;
    if (nBytes > 0 && spans.some(([start, end]) => offset < end && start < offset + nBytes))
      return `${name}: overlaps`;
    spans.push([offset, offset + nBytes]);
  }
  return file.tensorByName.size === file.tensors.length ? rewritten(file) : "names are not unique";
}

/** Writing the metadata and reading it back must not change it. */
function rewritten({ metadata }: GgufFile): string | undefined {
  const once = ggufHeader(metadata, []).bytes;
  const twice = ggufHeader(parseGguf(once).metadata, []).bytes;
  return Buffer.compare(once, twice) === 0 ? undefined : "metadata changes when rewritten";
}

/** What is wrong with how bytes are treated: accepted and consistent, or refused with a code and a position. */
export function misbehaviour(bytes: Uint8Array): string | undefined {
  let file: GgufFile;
  try {
    file = parseGguf(bytes);
  } catch (error) {
    if (!(error instanceof FormatError)) return `threw ${String(error)}`;
    return Number.isSafeInteger(error.details.offset) ? undefined : `no position: ${error.message}`;
  }
  return inconsistency(file, bytes.length);
}
