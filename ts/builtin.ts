// The host's own modules, without an import a browser or a bundler would stumble over.

interface Host {
  readonly process?: { getBuiltinModule?(id: string): unknown };
}

/** A built-in module of Node, Deno or Bun, such as "node:fs"; undefined where there is none (browsers). */
export function builtinModule<T>(id: string): T | undefined {
  return (globalThis as Host).process?.getBuiltinModule?.(id) as T | undefined;
}
