// Copies of what callers pass to templates: plain data only, with its size.

import { GraphError } from "../../errors.ts";

/** A value as JSON can hold it. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** A copy and the characters it holds, 8 for each entry. */
export interface Plain {
  readonly value: Json;
  readonly weight: number;
}

const MAX_DEPTH = 64;

/**
 * Copies plain data; what is undefined is left out. Templates can call functions, so none may get in.
 *
 * @param what where it stands, for messages
 * @throws {GraphError} bad-param for anything else than plain data, and for nesting beyond 64
 */
export function plain(value: unknown, what: string): Plain {
  let weight = 0;
  const copy = (x: unknown, path: string, depth: number): Json => {
    if (depth > MAX_DEPTH) throw notPlain(path, `nested more than ${MAX_DEPTH} deep`);
    weight += 8 + (typeof x === "string" ? x.length : 0);
    if (x === null || typeof x === "string" || typeof x === "boolean" || typeof x === "number") return x;
    if (Array.isArray(x)) return x.map((item, i) => copy(item, `${path}[${i}]`, depth + 1));
    if (!isRecord(x)) throw notPlain(path, `${typeof x === "object" ? "an object of a class" : typeof x}`);
    const entries = Object.entries(x).filter(([, item]) => item !== undefined);
    return Object.fromEntries(
      entries.map(([key, item]) => {
        weight += key.length;
        return [key, copy(item, `${path}.${key}`, depth + 1)];
      }),
    );
  };
  return { value: copy(value, what, 0), weight };
}

/** True for objects that are written as literals or come from JSON. */
export function isRecord(x: unknown): x is Readonly<Record<string, unknown>> {
  if (typeof x !== "object" || x === null || Array.isArray(x)) return false;
  const prototype: unknown = Object.getPrototypeOf(x);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function notPlain(path: string, actual: string): GraphError {
  return new GraphError("bad-param", `${path}: ${actual}, expected plain data`, {
    expected: "plain data",
    actual,
  });
}
