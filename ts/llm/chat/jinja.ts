// The template library as far as it is used here, loaded when a template is first rendered.

import { DeviceError } from "../../errors.ts";

/** A node of a parsed template. */
export interface Node {
  readonly type: string;
}

/** A value of the interpreter: a text, a number, a list, a function ... by `type`. */
export interface Value {
  readonly type: string;
  readonly value: unknown;
  toString(): string;
}

/** A function that templates can call. */
export type Call = (args: readonly Value[], scope: Scope) => Value;

/** Variables. */
export interface Scope {
  /** declares a variable from plain data or a function */
  set(name: string, value: unknown): unknown;
}

/** Evaluates nodes; every node that lies in another one goes through `evaluate` too. */
export interface Interpreter {
  evaluate(node: Node | undefined, scope: Scope): Value;
  run(program: Node): Value;
}

/** What @huggingface/jinja exports, in part. Its own typings do not resolve under Node's rules. */
export interface Jinja {
  readonly Environment: new () => Scope;
  readonly Interpreter: new (scope: Scope) => Interpreter;
  tokenize(source: string, options: { lstrip_blocks: boolean; trim_blocks: boolean }): readonly unknown[];
  parse(tokens: readonly unknown[]): Node;
}

/**
 * The library.
 *
 * @throws {DeviceError} unsupported when its chunk cannot be loaded
 */
export async function loadJinja(): Promise<Jinja> {
  try {
    return (await import("./jinja_library.ts")) as unknown as Jinja;
  } catch (cause) {
    throw new DeviceError("unsupported", "chat: the template library cannot be loaded", { cause });
  }
}
