// A model file as the float64 reference sees it: keys by name, F32 tensors as rows of doubles.
import { parseGguf } from "../../../ts/gguf/index.ts";
import { Type } from "../../../ts/types.ts";

/** A matrix: rows of equal length, the innermost dimension of the file. */
export type Rows = readonly Float64Array[];

export class File64 {
  readonly arch: string;
  readonly #meta: ReadonlyMap<string, { readonly value: unknown }>;
  readonly #tensors = new Map<string, { readonly ne: readonly number[]; readonly rows: Rows }>();

  constructor(bytes: Uint8Array) {
    const file = parseGguf(bytes);
    this.#meta = file.metadata;
    this.arch = String(file.metadata.get("general.architecture")!.value);
    for (const t of file.tensors) {
      if (t.type !== Type.F32) throw new Error(`${t.name}: the reference reads F32 only`);
      const view = new DataView(bytes.buffer, bytes.byteOffset + t.offset, t.nBytes);
      const [n, ...others] = t.ne;
      const count = others.reduce((a, b) => a * b, 1);
      const rows = Array.from({ length: count }, (_, r) =>
        Float64Array.from({ length: n }, (_unused, i) => view.getFloat32(4 * (r * n + i), true)),
      );
      this.#tensors.set(t.name, { ne: t.ne, rows });
    }
  }

  /** A number below the architecture's prefix. */
  num(key: string, byDefault?: number): number {
    const found = this.#meta.get(`${this.arch}.${key}`)?.value;
    if (found === undefined && byDefault === undefined) throw new Error(`${key}: missing`);
    return found === undefined ? byDefault! : Number(found);
  }

  text(key: string, byDefault: string): string {
    return String(this.#meta.get(`${this.arch}.${key}`)?.value ?? byDefault);
  }

  flag(key: string, byDefault: boolean): boolean {
    return Boolean(this.#meta.get(`${this.arch}.${key}`)?.value ?? byDefault);
  }

  list(key: string): number[] | undefined {
    const found = this.#meta.get(`${this.arch}.${key}`)?.value;
    return typeof found === "object" && found !== null ? Array.from(found as ArrayLike<number>) : undefined;
  }

  has(name: string): boolean {
    return this.#tensors.has(name);
  }

  rows(name: string): Rows {
    const t = this.#tensors.get(name);
    if (t === undefined) throw new Error(`${name}: missing`);
    return t.rows;
  }

  /** Rows of matrix `i` of a stack. */
  rowsOf(name: string, i: number): Rows {
    const { ne, rows } = this.#tensors.get(name)!;
    return rows.slice(i * ne[1]!, (i + 1) * ne[1]!);
  }

  vector(name: string): Float64Array {
    return this.rows(name)[0]!;
  }
}
