// The self-test: each kernel that a program uses runs once beside the CPU's before it is trusted. Drivers and browsers
// have computed wrong results without any error.

import { Op } from "../../../assembly/abi.ts";
import { fromBF16, fromF16 } from "../../graph/elements.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { nelements } from "../../shape.ts";
import { isQuantized, Type } from "../../types.ts";
import type { Backend } from "../../runtime/backend.ts";
import type { Dispatch } from "../kernel.ts";
import { aloneIn, moduleSource } from "../module.ts";
import { Bench } from "./bench.ts";
import { fillOf, numbers } from "./fill.ts";
import { hashOf, type KeptVerdicts } from "./kept.ts";
import { firstOp, replicate, smallShapes } from "./replica.ts";

/** What a node runs; undefined when the device cannot run it. */
export type DispatchesOf = (node: ProgramNode) => readonly Dispatch[] | undefined;

/** Elements of all operands of a test at most; larger nodes are not tested. */
const MOST_ELEMENTS = 2 ** 22;
/** Most that results may differ: squared, relative to the CPU's, which rounds activations of products to its own types. */
const LIMIT = 1e-5;
const PRODUCT_LIMIT = 5e-3;
const PRODUCTS: readonly Op[] = [
  Op.MUL_MAT,
  Op.MUL_MAT_ID,
  Op.FLASH_ATTN_EXT,
  Op.CONV_2D,
  Op.CONV_TRANSPOSE_1D,
  Op.CONV_TRANSPOSE_2D,
];
/** Part of the bytes of blocks that may differ: values half way between two codes. */
const BLOCK_BYTES = 0.02;

/** Verdicts on the kernels of one adapter. */
export class SelfTest {
  readonly #backend: Backend;
  readonly #dispatchesOf: DispatchesOf;
  readonly #kept: KeptVerdicts | undefined;
  /** what other processes found to be right; undefined before anybody asked */
  #passed: ReadonlyMap<string, string> | undefined;
  /** hashes of modules by kernel */
  readonly #hashes = new Map<string, string>();
  /** by kernel: what is wrong with it, or nothing */
  readonly #verdicts = new Map<string, string | undefined>();

  /** @param kept verdicts of other processes */
  constructor(backend: Backend, dispatchesOf: DispatchesOf, kept?: KeptVerdicts) {
    this.#backend = backend;
    this.#dispatchesOf = dispatchesOf;
    this.#kept = kept;
  }

  #keysOf(node: ProgramNode): readonly string[] | undefined {
    return this.#dispatchesOf(node)?.map((d) => d.key);
  }

  /** Kernels that failed, and why. */
  refused(): ReadonlyMap<string, string> {
    const refused = new Map<string, string>();
    for (const [key, reason] of this.#verdicts) if (reason !== undefined) refused.set(key, reason);
    return refused;
  }

  /** What is wrong with a kernel; undefined when nothing is known to be. */
  reason(key: string): string | undefined {
    return this.#verdicts.get(key);
  }

  /**
   * Tests the kernels of these nodes that have no verdict yet, and then those that run in place of refused ones.
   *
   * @throws the signal's reason; DeviceError when the device is lost
   */
  async test(nodes: readonly ProgramNode[], signal?: AbortSignal): Promise<void> {
    if (this.#untested(nodes).length > 0) await this.#recall(nodes);
    let wanted = this.#untested(nodes);
    if (wanted.length === 0) return;
    const bench = await Bench.open();
    const passed = new Map<string, string>();
    try {
      for (; wanted.length > 0; wanted = this.#untested(nodes)) {
        for (const node of wanted) {
          signal?.throwIfAborted();
          await this.#judge(bench, node, passed);
        }
      }
    } finally {
      bench.dispose();
      if (passed.size > 0) await this.#kept?.add(passed);
    }
  }

  // Adds verdicts on the kernels of a node; those that pass also to `passed`. What fails with f16 is put down to the
  // kernels that use it: the others are tested again with those that take their place.
  async #judge(bench: Bench, node: ProgramNode, passed: Map<string, string>): Promise<void> {
    const dispatches = this.#dispatchesOf(node)!;
    const keys = dispatches.map((d) => d.key);
    if (keys.every((key) => this.#verdicts.has(key))) return;
    const reason = await this.#testOne(bench, node, keys);
    const withF16 = dispatches.filter((d) => d.enable?.includes("f16"));
    for (const d of reason !== undefined && withF16.length > 0 ? withF16 : dispatches) {
      if (this.#verdicts.has(d.key)) continue;
      this.#verdicts.set(d.key, reason);
      if (reason === undefined) passed.set(d.key, this.#hash(d));
    }
  }

  // Kernels whose modules passed in another process need no test.
  async #recall(nodes: readonly ProgramNode[]): Promise<void> {
    if (this.#kept === undefined) return;
    this.#passed ??= await this.#kept.read();
    for (const node of nodes) {
      for (const d of this.#dispatchesOf(node) ?? []) {
        const passed = !this.#verdicts.has(d.key) && this.#passed.get(d.key) === this.#hash(d);
        if (passed) this.#verdicts.set(d.key, undefined);
      }
    }
  }

  #hash(d: Dispatch): string {
    const hash = this.#hashes.get(d.key) ?? hashOf(moduleSource(d, aloneIn(d)));
    this.#hashes.set(d.key, hash);
    return hash;
  }

  // One node for each new kernel, the one with the fewest elements; small ones first.
  #untested(nodes: readonly ProgramNode[]): ProgramNode[] {
    const smallest = new Map<string, ProgramNode>();
    for (const node of nodes) {
      for (const key of this.#keysOf(node) ?? []) {
        if (this.#verdicts.has(key)) continue;
        const known = smallest.get(key);
        if (known === undefined || elements(node) < elements(known)) smallest.set(key, node);
      }
    }
    return [...new Set(smallest.values())].sort((a, b) => elements(a) - elements(b));
  }

  async #testOne(bench: Bench, node: ProgramNode, keys: readonly string[]): Promise<string | undefined> {
    const shapes = this.#shapesFor(node, keys);
    if (shapes === undefined) return undefined;
    const ours = replicate(node, shapes);
    const theirs = replicate(node, shapes);
    const next = numbers(keys.length + nelements(node.tensor.ne));
    const data = new Map([...ours.bases].map(([slot, base]) => [slot, fillOf(base, slot, ours.node, next)]));
    const expected = await bench.run(bench.cpu, theirs, data);
    try {
      const got = await bench.run(this.#backend, ours, data);
      return difference(node.tensor.type, PRODUCTS.includes(firstOp(node)), got, expected);
    } catch (error) {
      if (this.#backend.lost !== undefined) throw error;
      return error instanceof Error ? error.message : String(error);
    }
  }

  // Small shapes when the same kernels run on them, else the node's own when they are not too large.
  #shapesFor(node: ProgramNode, keys: readonly string[]): ReturnType<typeof smallShapes> | undefined {
    const small = smallShapes(node);
    const own = { dst: node.tensor.ne, src: node.src.map((s) => s?.ne) };
    for (const shapes of [small, own]) {
      const replica = replicate(node, shapes);
      const same = this.#keysOf(replica.node)?.join() === keys.join();
      if (same && elements(replica.node) <= MOST_ELEMENTS) return shapes;
    }
    return undefined;
  }
}

function elements({ tensor, src }: ProgramNode): number {
  return src.reduce((n, s) => n + (s === undefined ? 0 : nelements(s.ne)), nelements(tensor.ne));
}

function values(type: Type, bytes: Uint8Array): ArrayLike<number> {
  const { buffer } = bytes.slice();
  if (type === Type.F16) return Float32Array.from(new Uint16Array(buffer), fromF16);
  if (type === Type.BF16) return Float32Array.from(new Uint16Array(buffer), fromBF16);
  return new Float32Array(buffer);
}

/** Why results are not the same; undefined when they agree. */
export function difference(
  type: Type,
  isProduct: boolean,
  got: Uint8Array,
  expected: Uint8Array,
): string | undefined {
  if (type !== Type.F32 && type !== Type.F16 && type !== Type.BF16) {
    const differ = got.reduce((n, b, i) => n + (b === expected[i] ? 0 : 1), 0);
    const allowed = isQuantized(type) ? BLOCK_BYTES * got.length : 0;
    return differ <= allowed ? undefined : `${differ} of ${got.length} bytes differ from the CPU's`;
  }
  const limit = isProduct ? PRODUCT_LIMIT : LIMIT;
  const error = nmse(values(type, got), values(type, expected));
  return error <= limit ? undefined : `differs from the CPU by ${error.toExponential(1)}, limit ${limit}`;
}

// Squared differences over squares; infinite when a value that is not finite is another one.
function nmse(x: ArrayLike<number>, y: ArrayLike<number>): number {
  let error = 0;
  let norm = 0;
  for (let i = 0; i < y.length; i++) {
    if (Number.isFinite(y[i]!) || Number.isFinite(x[i]!)) {
      error += (x[i]! - y[i]!) ** 2;
      norm += y[i]! ** 2;
    } else if (!Object.is(x[i], y[i])) return Infinity;
  }
  if (Number.isNaN(error)) return Infinity;
  return norm === 0 ? error : error / norm;
}
