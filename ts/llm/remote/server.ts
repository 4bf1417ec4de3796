// The worker's side: holds the model, runs what is asked for, tells what became of it.

import { GraphError } from "../../errors.ts";
import { ggufHeader, type GgufFile, openGguf, type SourceInput } from "../../gguf/index.ts";
import { takeCores } from "../../runtime/cores.ts";
import { openPort, type Port } from "../../runtime/port.ts";
import { makeThreadsBy } from "../../runtime/threads.ts";
import { checkLoadOptions, loadFile, type LoadOptions } from "../load.ts";
import type { Model } from "../model.ts";
import { ModelContext } from "../model_context.ts";
import { Orders } from "./crew.ts";
import { errorData } from "./errors.ts";
import { putHooks } from "./hooks.ts";
import { hostLocks } from "./locks.ts";
import type {
  Call,
  FromWorker,
  Known,
  LoadedModel,
  Outcome,
  Start,
  Step,
  Target,
  ToWorker,
} from "./protocol.ts";

/** The context that every model has. */
const MAIN = 0;

type Method = (...args: readonly unknown[]) => unknown;

/** A context with the tokens that the page knows of. */
interface Held {
  readonly context: ModelContext;
  told: readonly number[];
}

/** An iterator that the page goes through. */
interface Stream {
  readonly iterator: AsyncIterator<unknown>;
  readonly on: Target;
  readonly control: AbortController;
}

/**
 * Answers `loadModel` of the page that made this worker: the whole script of a worker of one's own, for pages whose policy
 * forbids workers from blobs. See the option `worker`.
 */
export function serveModels(): void {
  const server = new Server(openPort());
  server.start();
}

/** One worker holds one model. */
class Server {
  readonly #port: Port;
  readonly #orders = new Orders((order) => this.#post(order));
  readonly #contexts = new Map<number, Held>();
  readonly #streams = new Map<number, Stream>();
  readonly #controls = new Map<number, AbortController>();
  #model: Model | undefined;
  #nextContext = MAIN + 1;

  constructor(port: Port) {
    this.#port = port;
  }

  start(): void {
    this.#port.onMessage((data) => {
      const message = data as ToWorker;
      if (message.kind === "start") void this.#ready(message);
      else if (message.kind === "abort") this.#controls.get(message.id)?.abort();
      else if (message.kind === "thread") this.#orders.hear(message);
      else if (message.kind === "call") void this.#call(message);
      else void this.#step(message);
    });
  }

  // The lock is held until this thread ends, however it ends: so the page learns of it.
  async #ready({ cores, lock, crew }: Start): Promise<void> {
    takeCores(cores);
    if (crew) makeThreadsBy(this.#orders.make);
    const ready = (): void => this.#post({ kind: "ready" });
    const locks = lock === "" ? undefined : hostLocks();
    if (locks === undefined) return ready();
    const forever = (): Promise<never> => {
      ready();
      return new Promise(() => undefined);
    };
    await locks.request(lock, {}, forever).catch(ready);
  }

  async #call(call: Call): Promise<void> {
    const { id, on, args, hooks } = call;
    const control = new AbortController();
    this.#controls.set(id, control);
    if (hooks?.signal === "aborted") control.abort();
    const heard = (name: string, told: readonly unknown[]): void =>
      this.#post({ kind: "event", id, name, args: told });
    const outcome = await outcomeOf(control, async () => {
      const result = await this.#method(on, call.method)(...putHooks(args, hooks, control.signal, heard));
      return this.#outcome(result, id, on, control);
    });
    if (outcome.kind !== "stream") this.#controls.delete(id);
    this.#answer(id, on, outcome);
    if (call.method === "dispose" && typeof on === "object" && "context" in on)
      this.#contexts.delete(on.context);
  }

  async #step({ kind, id, stream }: Step): Promise<void> {
    const open = this.#streams.get(stream);
    if (open === undefined) return this.#answer(id, "worker", { kind: "step", done: true, value: undefined });
    const outcome = await outcomeOf(open.control, async () => {
      const step = kind === "next" ? await open.iterator.next() : await open.iterator.return?.();
      return { kind: "step", done: step?.done ?? true, value: step?.value };
    });
    if (outcome.kind !== "step" || outcome.done) {
      this.#streams.delete(stream);
      this.#controls.delete(stream);
    }
    this.#answer(id, open.on, outcome);
  }

  // Only what is named here can be called.
  #method(on: Target, name: string): Method {
    const table: Readonly<Record<string, Method>> =
      on === "worker"
        ? { load: (...a) => this.#load(a[0] as SourceInput, a[1] as LoadOptions) }
        : this.#methods(on);
    if (!Object.hasOwn(table, name)) throw new GraphError("unsupported", `worker: no method "${name}"`);
    return table[name]!;
  }

  #methods(on: Exclude<Target, "worker">): Readonly<Record<string, Method>> {
    const model = this.#model!;
    if (on === "model") return bound(model, ["createContext", "evaluate", "embed", "rerank", "dispose"]);
    if ("chat" in on) {
      const { chat } = this.#held(on.chat).context;
      return { ...bound(chat, ["render"]), ...bound(chat.completions, ["create"]) };
    }
    const { context } = this.#held(on.context);
    return bound(context, ["generate", "complete", "save", "restore", "clear", "dispose"]);
  }

  // The model's own context may come to be only now.
  #held(id: number): Held {
    let held = this.#contexts.get(id);
    if (held === undefined && id === MAIN)
      this.#contexts.set(id, (held = { context: this.#model!.context, told: [] }));
    if (held === undefined) throw new GraphError("disposed", "context: disposed");
    return held;
  }

  async #load(input: SourceInput, options: LoadOptions): Promise<LoadedModel> {
    checkLoadOptions(options);
    const opened = await openGguf(input, { signal: options.signal });
    const vocabulary = vocabularyOf(opened.file);
    const model = await loadFile(opened, options, () => openGguf(input));
    this.#model = model;
    const { nThreads, build } = model.engine;
    return { nThreads, build, params: model.params, nCtx: model.nCtx, vocabulary };
  }

  #outcome(result: unknown, id: number, on: Target, control: AbortController): Outcome {
    if (result instanceof ModelContext) {
      const context = this.#nextContext++;
      this.#contexts.set(context, { context: result, told: [] });
      return { kind: "context", context, nCtx: result.nCtx };
    }
    if (isAsyncIterable(result)) {
      this.#streams.set(id, { iterator: result[Symbol.asyncIterator](), on, control });
      return { kind: "stream" };
    }
    return { kind: "value", value: result };
  }

  #answer(id: number, on: Target, outcome: Outcome): void {
    try {
      this.#post({ kind: "answer", id, outcome, ...this.#known(on) }, transferOf(outcome));
    } catch (error) {
      // A result that cannot be sent.
      const told: Outcome = { kind: "error", error: errorData(error) };
      this.#post({ kind: "answer", id, outcome: told, memory: undefined, tokens: undefined });
    }
  }

  #known(on: Target): Known {
    const id = typeof on === "string" ? undefined : "chat" in on ? on.chat : on.context;
    const held = id === undefined ? undefined : this.#contexts.get(id);
    try {
      return { memory: this.#model?.memory(), tokens: held === undefined ? undefined : news(held) };
    } catch {
      return { memory: undefined, tokens: undefined }; // disposed
    }
  }

  #post(message: FromWorker, transfer?: readonly ArrayBuffer[]): void {
    this.#port.postMessage(message, transfer);
  }
}

// What a run came to. The signal's own reason stays on the page.
async function outcomeOf(control: AbortController, run: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await run();
  } catch (error) {
    if (control.signal.aborted && error === control.signal.reason) return { kind: "aborted" };
    return { kind: "error", error: errorData(error) };
  }
}

function bound<T extends object>(target: T, names: readonly (keyof T & string)[]): Record<string, Method> {
  return Object.fromEntries(
    names.map((name) => [name, (...args) => (target[name] as Method).apply(target, args as [])]),
  );
}

// Tokens of the context that the page does not know of.
function news(held: Held): Known["tokens"] {
  const { tokens } = held.context;
  let kept = 0;
  while (kept < tokens.length && held.told[kept] === tokens[kept]) kept++;
  held.told = tokens;
  return { kept, more: tokens.slice(kept) };
}

function transferOf(outcome: Outcome): ArrayBuffer[] {
  if (outcome.kind !== "value" || !(outcome.value instanceof Uint8Array)) return [];
  return outcome.value.buffer instanceof ArrayBuffer ? [outcome.value.buffer] : [];
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

// The keys that a tokenizer is made from.
function vocabularyOf({ metadata }: GgufFile): Uint8Array<ArrayBuffer> {
  const wanted = /^(tokenizer\.|general\.(name|architecture)$)/;
  const { bytes } = ggufHeader(
    [...metadata].filter(([key]) => wanted.test(key)),
    [],
  );
  return bytes as Uint8Array<ArrayBuffer>;
}
