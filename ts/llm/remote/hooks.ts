// The options of a call that cannot be sent: a signal and functions. Taken out on one side, put back on the other.

import { GraphError } from "../../errors.ts";
import type { Hooks } from "./protocol.ts";

/** A function that is called with what was posted. */
export type Listener = (...args: readonly unknown[]) => unknown;

/** Arguments as they can be sent, and what stays here. */
export interface TakenOut {
  readonly args: readonly unknown[];
  readonly hooks: Hooks | undefined;
  readonly signal: AbortSignal | undefined;
  readonly listeners: ReadonlyMap<string, Listener>;
}

/** Functions that only listen: what they return counts for nothing, and when they are called is not vital. */
const LISTENERS = ["onProgress", "onToken"];

/**
 * Takes signal and functions out of the last argument, when it is an object of options.
 *
 * @throws {GraphError} unsupported for a function that must answer at once
 */
export function takeHooks(method: string, args: readonly unknown[]): TakenOut {
  const at = args.length - 1;
  const options = args[at];
  const listeners = new Map<string, Listener>();
  if (!isPlain(options)) return { args, hooks: undefined, signal: undefined, listeners };
  const { signal, logger, ...data } = options;
  if (typeof logger === "object") listenTo(logger, listeners);
  for (const [key, value] of Object.entries(data)) {
    if (typeof value !== "function") continue;
    if (!LISTENERS.includes(key)) throw cannotAnswer(method, key);
    listeners.set(key, value as Listener);
    delete data[key];
  }
  const given = signalOf(method, signal);
  // A listener that throws ends the call.
  const live = given !== undefined || listeners.size > 0;
  const state = given?.aborted === true ? "aborted" : live ? "live" : "none";
  return {
    args: [...args.slice(0, at), data],
    hooks: { at, signal: state, listens: [...listeners.keys()] },
    signal: given,
    listeners,
  };
}

// A signal may be of another realm, or a stand-in.
function signalOf(method: string, signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal === null) return undefined;
  const s = signal as Partial<AbortSignal>;
  if (typeof s.aborted === "boolean" && typeof s.addEventListener === "function") return s as AbortSignal;
  throw new GraphError("bad-param", `${method}: signal is no AbortSignal`, {
    expected: "AbortSignal",
    actual: typeof signal,
  });
}

// A logger may be an instance of a class: its methods are called on it.
function listenTo(logger: object | null, listeners: Map<string, Listener>): void {
  for (const name of ["debug", "info", "warn", "error", "onEvent"]) {
    const method = (logger as Record<string, unknown> | null)?.[name];
    if (typeof method === "function") listeners.set(`logger.${name}`, method.bind(logger) as Listener);
  }
}

function cannotAnswer(method: string, key: string): GraphError {
  const text = `${method}: ${key} must answer at once, which it cannot from another thread; load with worker: false`;
  return new GraphError("unsupported", text, { actual: key });
}

/** Arguments with a signal and functions in their places again. */
export function putHooks(
  args: readonly unknown[],
  hooks: Hooks | undefined,
  signal: AbortSignal,
  heard: (name: string, args: readonly unknown[]) => void,
): readonly unknown[] {
  if (hooks === undefined) return args;
  const options: Record<string, unknown> = { ...(args[hooks.at] as object) };
  if (hooks.signal !== "none") options["signal"] = signal;
  for (const path of hooks.listens) {
    const listener: Listener = (...told) => heard(path, told);
    const [, inLogger] = path.split("logger.");
    if (inLogger === undefined) options[path] = listener;
    else options["logger"] = { ...(options["logger"] as object | undefined), [inLogger]: listener };
  }
  return args.with(hooks.at, options);
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const proto: unknown = Object.getPrototypeOf(value);
  return proto === Object.prototype || proto === null;
}
