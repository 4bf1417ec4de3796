// Arguments of commands: options by name, numbers checked, help.

import { existsSync } from "node:fs";
import { parseArgs } from "node:util";

/** One option of a command. */
export interface Option {
  readonly type: "string" | "boolean";
  readonly short?: string;
  /** line for --help */
  readonly help: string;
}

/** Options every command has. */
const COMMON = { json: { type: "boolean", help: "one JSON object as the last line" } } as const;

/** Parsed arguments. */
export class Args {
  readonly positionals: readonly string[];
  readonly #values: Readonly<Record<string, string | boolean | undefined>>;

  constructor(
    positionals: readonly string[],
    values: Readonly<Record<string, string | boolean | undefined>>,
  ) {
    this.positionals = positionals;
    this.#values = values;
  }

  text(name: string): string | undefined {
    return this.#values[name] as string | undefined;
  }

  flag(name: string): boolean {
    return this.#values[name] === true;
  }

  /** @throws {TypeError} when the value is no number */
  number(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (text.trim() !== "" && Number.isFinite(value)) return value;
    throw new TypeError(`--${name}: "${text}" is not a number`);
  }

  get json(): boolean {
    return this.flag("json");
  }
}

/**
 * Parses the arguments of a command; prints its help and returns undefined when asked for it.
 *
 * @throws {TypeError} for an unknown option, a missing value or too many arguments
 */
export function parse(
  usage: string,
  args: readonly string[],
  options: Readonly<Record<string, Option>>,
  maxPositionals = 1,
): Args | undefined {
  const all: Record<string, Option> = {
    ...options,
    ...COMMON,
    help: { type: "boolean", short: "h", help: "this text" },
  };
  const config = Object.fromEntries(
    Object.entries(all).map(([name, o]) => [
      name,
      o.short === undefined ? { type: o.type } : { type: o.type, short: o.short },
    ]),
  );
  const { values, positionals } = parseArgs({
    args: [...args],
    options: config,
    allowPositionals: true,
    strict: true,
  });
  if (values.help === true) {
    console.log(helpText(usage, all));
    return undefined;
  }
  if (positionals.length > maxPositionals)
    throw new TypeError(`unexpected argument "${positionals[maxPositionals]}"`);
  return new Args(positionals, values as Record<string, string | boolean | undefined>);
}

/** The path of a file that arguments name. @throws {TypeError} when there is no such file */
export function existing(path: string): string {
  if (!existsSync(path)) throw new TypeError(`no such file: ${path}`);
  return path;
}

/** The same of what a URL may name as well. */
export function existingOrUrl(path: string): string {
  return /^[a-z]+:\/\//.test(path) ? path : existing(path);
}

function helpText(usage: string, options: Readonly<Record<string, Option>>): string {
  const lines = Object.entries(options).map(([name, o]) => {
    const short = o.short === undefined ? "    " : `-${o.short}, `;
    return `  ${short}--${name.padEnd(20)} ${o.help}`;
  });
  return [usage, "", ...lines].join("\n");
}
