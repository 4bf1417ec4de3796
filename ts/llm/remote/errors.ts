// Errors between threads: the same class, code and details on the other side.

import { DeviceError, type ErrorDetails, FormatError, GraphError } from "../../errors.ts";

/** An error as plain data. */
export interface ErrorData {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly code: string | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly cause: ErrorData | undefined;
}

type Made = new (code: never, message: string, details?: ErrorDetails) => Error;

const OWN: Readonly<Record<string, Made>> = { FormatError, GraphError, DeviceError };
const PLAIN: Readonly<Record<string, new (message: string) => Error>> = {
  TypeError,
  RangeError,
  SyntaxError,
};
/** Causes of causes that are told. */
const MAX_DEPTH = 4;

/** The error as plain data. What was thrown and is no error becomes one with its text. */
export function errorData(error: unknown, depth = 0): ErrorData {
  const { name, message, stack, code, details, cause } = (
    error instanceof Error || typeof error === "object" ? error : { name: "Error", message: String(error) }
  ) as Partial<Error> & { code?: unknown; details?: object };
  return {
    name: String(name),
    message: String(message),
    stack,
    code: typeof code === "string" ? code : undefined,
    details: details === undefined ? undefined : plainDetails(details),
    cause: cause === undefined || depth === MAX_DEPTH ? undefined : errorData(cause, depth + 1),
  };
}

/** The error again. */
export function errorFrom(data: ErrorData): Error {
  const error = bare(data);
  if (data.stack !== undefined) error.stack = data.stack;
  return error;
}

function bare(data: ErrorData): Error {
  const { name, message, code } = data;
  const cause = data.cause === undefined ? undefined : errorFrom(data.cause);
  if (Object.hasOwn(OWN, name) && code !== undefined) {
    const details = cause === undefined ? data.details : { ...data.details, cause };
    return new OWN[name]!(code as never, message, details);
  }
  if (name === "AbortError" || name === "DataCloneError") return new DOMException(message, name);
  const error = Object.hasOwn(PLAIN, name) ? new PLAIN[name]!(message) : new Error(message);
  if (error.name !== name) error.name = name;
  if (cause !== undefined) error.cause = cause;
  return error;
}

// Fields that can be sent, the others as text; the cause goes by itself.
function plainDetails(details: object): Record<string, unknown> {
  const entries = Object.entries(details).filter(([key]) => key !== "cause");
  return Object.fromEntries(entries.map(([key, value]) => [key, sendable(value) ? value : String(value)]));
}

function sendable(value: unknown): boolean {
  try {
    structuredClone(value);
    return true;
  } catch {
    return false;
  }
}
