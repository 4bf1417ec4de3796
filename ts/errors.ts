// The three errors a caller can act on. Each has a stable `code`; the message says what was expected and what was found.

/** Codes of {@link FormatError}: container level first, then model level. */
export type FormatCode =
  | "bad-magic"
  | "unsupported-version"
  | "truncated"
  | "limit"
  | "bad-type"
  | "bad-key"
  | "bad-value"
  | "duplicate-key"
  | "bad-alignment"
  | "bad-name"
  | "duplicate-tensor"
  | "bad-dims"
  | "overflow"
  | "block-size"
  | "bad-offset"
  | "nesting"
  | "missing-key"
  | "bad-hparam"
  | "missing-tensor"
  | "shape-mismatch"
  | "unsupported-type"
  | "unsupported-arch"
  | "unsupported-tokenizer"
  | "vocab-mismatch"
  | "token-range"
  | "missing-part"
  | "template-error"
  | "non-finite";

/** Codes of {@link GraphError}. */
export type GraphCode =
  | "bad-shape"
  | "bad-type"
  | "bad-param"
  | "bad-source"
  | "bad-plan"
  | "not-planned"
  | "not-readable"
  | "bad-data"
  | "too-large"
  | "unsupported-op"
  | "context-full"
  | "unsupported"
  | "token-range"
  | "disposed"
  | "busy";

/** Codes of {@link DeviceError}. */
export type DeviceCode =
  | "out-of-memory"
  | "buffer-too-large"
  | "no-simd"
  | "bad-wasm"
  | "wasm-blocked"
  | "trap"
  | "timeout"
  | "worker-blocked"
  | "worker-lost"
  | "no-source"
  | "io"
  | "unsupported"
  | "device-lost"
  | "gpu-error"
  | "bad-shader"
  | "disposed";

/** Where and what, as far as known. All fields are plain data, so an error can be posted to another thread. */
export interface ErrorDetails {
  readonly expected?: unknown;
  readonly actual?: unknown;
  /** byte position in the file */
  readonly offset?: number;
  /** metadata key */
  readonly key?: string;
  /** tensor name */
  readonly tensor?: string;
  /** operator name */
  readonly op?: string;
  /** index of the node in its graph */
  readonly node?: number;
  readonly cause?: unknown;
}

class SlackwaterError<Code extends string> extends Error {
  readonly code: Code;
  readonly details: ErrorDetails;

  constructor(name: string, code: Code, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = name;
    this.code = code;
    this.details = details;
  }
}

/** This file (or source of bytes) is bad. */
export class FormatError extends SlackwaterError<FormatCode> {
  constructor(code: FormatCode, message: string, details?: ErrorDetails) {
    super("FormatError", code, message, details);
  }
}

/** The graph, the data or the call is wrong. */
export class GraphError extends SlackwaterError<GraphCode> {
  constructor(code: GraphCode, message: string, details?: ErrorDetails) {
    super("GraphError", code, message, details);
  }
}

/** This machine cannot do it: ask for less, or another backend. */
export class DeviceError extends SlackwaterError<DeviceCode> {
  constructor(code: DeviceCode, message: string, details?: ErrorDetails) {
    super("DeviceError", code, message, details);
  }
}

/**
 * Refuses misspelt options.
 *
 * @throws {TypeError} naming the unknown option and the known ones
 */
export function checkOptions(where: string, options: object, known: readonly string[]): void {
  for (const key of Object.keys(options)) {
    if (!known.includes(key))
      throw new TypeError(`${where}: unknown option "${key}"; known: ${known.join(", ")}`);
  }
}
