// One chat template: Jinja text of a model, compiled when it is first used, rendered within bounds.

import { FormatError } from "../../errors.ts";
import { type Bounds, Guard } from "./guard.ts";
import { type Jinja, loadJinja, type Node, type Scope } from "./jinja.ts";
import { strftime } from "./strftime.ts";

interface Compiled {
  readonly jinja: Jinja;
  readonly program: Node;
}

/** Variables of a rendering: plain data. */
export type TemplateVariables = Readonly<Record<string, unknown>>;

/** Longest template, characters; those of real models have up to 30,000. */
const MAX_SOURCE = 2 ** 18;
/** Longest run of blanks in one: the library's time for it grows with the square. */
const MAX_BLANKS = 2 ** 10;
/** What a rendering may take beside what its input accounts for. */
const BASE: Bounds = { steps: 2 ** 18, size: 2 ** 20 };

/** A template with the key it was stored under. */
export class ChatTemplate {
  readonly key: string;
  readonly source: string;
  #compiled: Promise<Compiled> | undefined;

  constructor(key: string, source: string) {
    this.key = key;
    this.source = source;
  }

  /**
   * Renders the template.
   *
   * @param weight characters of the variables, about; bounds on steps and sizes grow with it
   * @param now the date that `strftime_now` tells
   * @throws {FormatError} template-error: it does not parse, uses what is not defined, refuses the conversation (its
   *   own words are in the message), or takes too long
   * @throws {DeviceError} unsupported when the template library cannot be loaded
   */
  async render(variables: TemplateVariables, weight: number, now: Date): Promise<string> {
    const { jinja, program } = await (this.#compiled ??= this.#compile());
    const scope = new jinja.Environment();
    const interpreter = new jinja.Interpreter(scope);
    const bounds = { steps: BASE.steps + 32 * weight, size: BASE.size + 4 * weight };
    const guard = new Guard(interpreter, bounds, this.source.length);
    try {
      setGlobals(scope, guard, now);
      for (const [name, value] of Object.entries(variables)) scope.set(name, value);
      return String(interpreter.run(program).value);
    } catch (error) {
      throw this.#error(error);
    }
  }

  async #compile(): Promise<Compiled> {
    const jinja = await loadJinja();
    try {
      checkSource(this.source);
      const tokens = jinja.tokenize(this.source, { lstrip_blocks: true, trim_blocks: true });
      return { jinja, program: jinja.parse(tokens) };
    } catch (error) {
      // The parser looks at the next token without asking whether there is one.
      throw this.#error(error instanceof TypeError ? new Error("the template ends too early") : error);
    }
  }

  #error(cause: unknown): FormatError {
    const { message = "", name = "" } = cause as { message?: string; name?: string };
    return new FormatError("template-error", `${this.key}: ${message || name}`, { key: this.key, cause });
  }
}

function checkSource(source: string): void {
  if (source.length > MAX_SOURCE) {
    throw new Error(`the template has ${source.length} characters; ${MAX_SOURCE} at most`);
  }
  if (new RegExp(`\\s{${MAX_BLANKS}}`).test(source))
    throw new Error(`more than ${MAX_BLANKS} blanks in a row`);
}

function setGlobals(scope: Scope, guard: Guard, now: Date): void {
  for (const [name, value] of [
    ["true", true],
    ["false", false],
    ["none", null],
  ] as const) {
    scope.set(name, value);
    scope.set(name[0]!.toUpperCase() + name.slice(1), value);
  }
  scope.set("range", (...args: unknown[]) => guard.range(...args));
  scope.set("strftime_now", (format: unknown) => strftime(now, String(format)));
  scope.set("raise_exception", (text: unknown) => {
    throw new Error(String(text));
  });
}

/** Names that a rendering defines itself. */
export const GLOBALS: readonly string[] = [
  "true",
  "false",
  "none",
  "True",
  "False",
  "None",
  "namespace",
  "range",
  "strftime_now",
  "raise_exception",
];
