// Compares what became of a file with what the manifest allows.
import { createHash } from "node:crypto";
import { FormatError } from "../../ts/errors.ts";
import { type GgufFile, GgufType, type MetaValue, type TensorInfo } from "../../ts/gguf/index.ts";
import { Type, typeName } from "../../ts/types.ts";
import type { Expect, ExpectedTensor, Json, Outcome } from "./manifest.ts";

/** Reads the bytes of one tensor. */
export type ReadTensor = (tensor: TensorInfo) => Promise<Uint8Array>;

/** Why a rejection is not what was expected; undefined when it is. */
export function judgeError(expect: Expect, error: unknown): string | undefined {
  if (!(error instanceof FormatError)) return `threw ${String(error)}`;
  const fits = (o: Outcome): boolean =>
    o.action === "no-crash" || (o.action === "reject" && (o.error === "any" || o.error === error.code));
  if (![expect, ...(expect.any ?? [])].some(fits)) return `rejected as ${error.code}: ${error.message}`;
  return typeof error.details.offset === "number" ? undefined : `no byte position: ${error.message}`;
}

/** Why an acceptance is not what was expected. */
export function judgeAccept(expect: Expect): string | undefined {
  const fits = [expect, ...(expect.any ?? [])].some((o) => o.action !== "reject");
  return fits ? undefined : "accepted";
}

/** Why the contents of an accepted file are not what was expected. */
export async function judgeFile(
  expect: Expect,
  file: GgufFile,
  read: ReadTensor,
): Promise<string | undefined> {
  return (
    count("n_kv", expect.n_kv, file.metadata.size) ??
    count("n_tensors", expect.n_tensors, file.tensors.length) ??
    judgeKeys(expect, file) ??
    (await judgeTensors(expect.tensors, file, read)) ??
    (await judgeValues(expect, file, read))
  );
}

function count(what: string, expected: number | undefined, actual: number): string | undefined {
  return expected === undefined || expected === actual
    ? undefined
    : `${what} is ${actual}, expected ${expected}`;
}

function judgeKeys({ kv }: Expect, file: GgufFile): string | undefined {
  if (kv === undefined) return undefined;
  for (const [key, expected] of Object.entries(kv)) {
    const value = file.metadata.get(key);
    if (value === undefined) return `key ${key} is missing`;
    if (!sameValue(expected, value)) return `key ${key} differs from ${JSON.stringify(expected)}`;
  }
  // The manifest leaves out the architecture that most files have.
  const others = [...file.metadata.keys()].filter((key) => !(key in kv) && key !== "general.architecture");
  const none = Object.keys(kv).length === 0;
  return count("number of other keys", 0, none ? file.metadata.size : others.length);
}

/** True when a metadata value is the one the manifest gives. */
export function sameValue(expected: Json, actual: MetaValue): boolean {
  if (actual.type !== GgufType.ARRAY)
    return sameScalar(expected, actual.value, actual.type === GgufType.FLOAT32);
  if (!Array.isArray(expected) || expected.length !== actual.value.length) return false;
  if (actual.elementType === GgufType.ARRAY) {
    return actual.value.every((inner, i) => sameValue(expected[i] as Json, inner));
  }
  const single = actual.elementType === GgufType.FLOAT32;
  return Array.from<unknown>(actual.value).every((value, i) =>
    sameScalar(expected[i] as Json, value, single),
  );
}

function sameScalar(expected: Json, actual: unknown, single: boolean): boolean {
  if (typeof actual === "bigint") return String(expected) === String(actual);
  if (typeof actual === "string") return expected === actual;
  const number = single ? Math.fround(Number(expected)) : Number(expected);
  return Object.is(number, Number(actual));
}

async function judgeTensors(
  expected: readonly ExpectedTensor[] | undefined,
  file: GgufFile,
  read: ReadTensor,
): Promise<string | undefined> {
  if (expected === undefined) return undefined;
  if (expected.length !== file.tensors.length)
    return `${file.tensors.length} tensors, expected ${expected.length}`;
  for (const [i, e] of expected.entries()) {
    const t = file.tensors[i];
    if (t === undefined) return `tensor ${e.name} is missing`;
    const found = JSON.stringify([t.name, t.ne.slice(0, t.nDims), typeName(t.type), t.nBytes]);
    if (found !== JSON.stringify([e.name, e.ne, e.type, e.nbytes])) return `tensor ${e.name} is ${found}`;
    if (file.tensorByName.get(e.name) !== t) return `tensor ${e.name} is not found by name`;
    const hash = createHash("sha256")
      .update(await read(t))
      .digest("hex");
    if (e.sha256 !== undefined && hash !== e.sha256) return `tensor ${e.name} has other bytes`;
  }
  return undefined;
}

async function judgeValues({ f32 }: Expect, file: GgufFile, read: ReadTensor): Promise<string | undefined> {
  for (const [name, expected] of Object.entries(f32 ?? {})) {
    const tensor = file.tensorByName.get(name);
    if (tensor === undefined) return `tensor ${name} is missing`;
    const values = decode(tensor.type, await read(tensor));
    const same =
      values.length === expected.length &&
      values.every((v, i) => Object.is(v, Math.fround(Number(expected[i]))));
    if (!same) return `tensor ${name} is ${values.join()}, expected ${expected.join()}`;
  }
  return undefined;
}

function decode(type: Type, bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (type === Type.F32)
    return Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
  if (type !== Type.F16) throw new Error(`no decoder for ${typeName(type)} in the corpus runner`);
  return Array.from({ length: bytes.length / 2 }, (_, i) => fromHalf(view.getUint16(2 * i, true)));
}

function fromHalf(bits: number): number {
  const sign = bits >> 15 === 0 ? 1 : -1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}
