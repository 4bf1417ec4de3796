// Public surface of the GGUF layer.

export {
  type DeviceCode,
  DeviceError,
  type ErrorDetails,
  type FormatCode,
  FormatError,
  type GraphCode,
  GraphError,
} from "../errors.ts";
export { Type, typeName } from "../types.ts";
export {
  type FileHandle,
  type OpenGguf,
  type OpenOptions,
  type SourceInput,
  openGguf,
  openSource,
} from "./open.ts";
export { type GgufFile, parseGguf, readGguf } from "./reader.ts";
export type { ByteSource, LoadOptions, Part, Piece, Work } from "./source.ts";
export type { TensorInfo } from "./tensors.ts";
export {
  GgufType,
  type MetaArray,
  type MetaScalar,
  type MetaString,
  type MetaValue,
  StringArray,
} from "./values.ts";
export {
  type GgufHeader,
  type MetaEntries,
  type TensorData,
  type TensorHeader,
  type WriteOptions,
  ggufChunks,
  ggufHeader,
  writeGguf,
} from "./writer.ts";
