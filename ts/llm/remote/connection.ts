// The page's side: sends calls, hears answers, and knows when the worker is gone.

import { DeviceError, GraphError } from "../../errors.ts";
import { packedCores } from "../../runtime/cores.ts";
import type { MemoryReport } from "../../runtime/arena.ts";
import { within } from "../../within.ts";
import { PageThreads, type ThreadOrder } from "./crew.ts";
import { errorFrom } from "./errors.ts";
import { takeHooks, type TakenOut } from "./hooks.ts";
import { blocked, type Peer } from "./peer.ts";
import type { Answer, Call, FromWorker, HookCall, Outcome, Step, Target } from "./protocol.ts";

/** Time a worker has to answer the first message, ms. One that is blocked is heard of at once. */
const HANDSHAKE_MS = 30_000;

/** Ids of a context's tokens as the page knows them. */
export interface TokenList {
  ids: readonly number[];
}

/** A question under way. */
interface Waiting {
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: Error) => void;
  readonly tokens: TokenList | undefined;
}

/** What a call left here: its signal and its listeners, until it or the stream that it opened has ended. */
interface Open extends Pick<TakenOut, "signal" | "listeners"> {
  readonly tokens: TokenList | undefined;
  /** what a listener threw: the call fails with it */
  failed: { readonly error: unknown } | undefined;
  readonly close: () => void;
}

/** What a call came to. */
export type Result =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "stream"; readonly stream: number }
  | { readonly kind: "context"; readonly context: number; readonly nCtx: number };

/** A line to a worker that holds one model. */
export class Connection {
  readonly #peer: Peer;
  readonly #crew: PageThreads;
  readonly #waiting = new Map<number, Waiting>();
  readonly #open = new Map<number, Open>();
  #memory: MemoryReport | undefined;
  #nextId = 1;
  #lost: Error | undefined;
  #closed = false;

  private constructor(peer: Peer) {
    this.#peer = peer;
    this.#crew = new PageThreads((news) => peer.post(news));
  }

  /**
   * Greets a worker.
   *
   * @throws {DeviceError} worker-blocked when it does not answer; it is ended then
   */
  static async open(peer: Peer): Promise<Connection> {
    const connection = new Connection(peer);
    try {
      const ready = new Promise<void>((resolve, reject) => {
        peer.listen(
          (data) => {
            const message = data as FromWorker;
            if (message.kind === "ready") resolve();
            else connection.#hear(message);
          },
          (cause) => {
            reject(cause);
            connection.#lose(cause);
          },
        );
        peer.post({ kind: "start", cores: packedCores(), lock: peer.lock, crew: peer.crew });
      });
      await within(ready, HANDSHAKE_MS);
    } catch (cause) {
      peer.end();
      throw blocked(peer.hint, cause);
    }
    peer.started();
    return connection;
  }

  /** Bytes of memory by use as of the last answer. @throws {GraphError} disposed; DeviceError worker-lost */
  get memory(): MemoryReport {
    this.#alive();
    return this.#memory!;
  }

  /** How many questions are not answered yet. */
  get busy(): boolean {
    return this.#waiting.size > 0;
  }

  /**
   * Runs a method in the worker.
   *
   * @throws what it throws there; the reason of the signal among the options; DeviceError worker-lost
   */
  async call(on: Target, method: string, args: readonly unknown[], tokens?: TokenList): Promise<Result> {
    this.#alive();
    const taken = takeHooks(method, args);
    const id = this.#nextId++;
    const open = this.#register(id, taken, tokens);
    let stays = false;
    try {
      const post = { kind: "call", id, on, method, args: taken.args, hooks: taken.hooks } as const;
      const outcome = await this.#ask(post, open);
      if (outcome.kind === "step")
        throw new GraphError("unsupported", `${method}: a step that was not asked for`);
      stays = outcome.kind === "stream";
      return outcome.kind === "stream" ? { kind: "stream", stream: id } : outcome;
    } finally {
      if (!stays) open.close();
    }
  }

  /** Goes through a stream: a step is computed when it is asked for. Leaving early ends it in the worker too. */
  async *steps<T, R>(stream: number): AsyncGenerator<T, R, undefined> {
    const open = this.#open.get(stream)!;
    let going = true;
    try {
      for (;;) {
        this.#alive();
        going = false; // an error ends it there by itself
        const step = await this.#ask({ kind: "next", id: this.#nextId++, stream }, open);
        if (step.kind !== "step" || step.done) return (step as { readonly value: unknown }).value as R;
        going = true;
        yield step.value as T;
      }
    } finally {
      if (going && this.#lost === undefined) {
        await this.#ask({ kind: "return", id: this.#nextId++, stream }, open).catch(() => undefined);
      }
      open.close();
    }
  }

  /** Lets the model go; the worker ends when all that is under way has ended. */
  close(): void {
    if (this.#closed) return;
    const done = this.call("model", "dispose", []).catch(() => undefined);
    this.#closed = true;
    void done.then(() => this.#end());
  }

  /** Ends the worker at once. */
  end(): void {
    this.#closed = true;
    this.#lose(new Error("ended"));
  }

  #alive(): void {
    if (this.#closed) throw new GraphError("disposed", "model: disposed");
    if (this.#lost !== undefined) throw this.#lost;
  }

  #register(id: number, taken: TakenOut, tokens: TokenList | undefined): Open {
    const { signal, listeners } = taken;
    const abort = (): void => this.#peer.post({ kind: "abort", id });
    const close = (): void => {
      signal?.removeEventListener("abort", abort);
      this.#open.delete(id);
    };
    signal?.addEventListener("abort", abort);
    const open: Open = { signal, listeners, tokens, failed: undefined, close };
    this.#open.set(id, open);
    return open;
  }

  async #ask(message: Call | Step, open: Open): Promise<Good> {
    const { id } = message;
    const outcome = await new Promise<Outcome>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, tokens: open.tokens });
      try {
        this.#peer.post(message);
        this.#peer.hold(true);
      } catch (cause) {
        this.#waiting.delete(id);
        const text = "an argument cannot be sent to the model's worker: plain data, Blobs and bytes can";
        reject(new GraphError("bad-param", text, { cause }));
      }
    });
    if (open.failed !== undefined) throw open.failed.error;
    if (outcome.kind === "aborted") throw open.signal!.reason as Error;
    if (outcome.kind === "error") throw errorFrom(outcome.error);
    return outcome;
  }

  #hear(message: Answer | HookCall | ThreadOrder): void {
    if (message.kind === "event") this.#tell(message);
    else if (message.kind === "answer") this.#answered(message);
    else this.#crew.hear(message);
  }

  #tell({ id, name, args }: HookCall): void {
    const open = this.#open.get(id);
    if (open === undefined || open.failed !== undefined) return;
    try {
      open.listeners.get(name)?.(...args);
    } catch (error) {
      open.failed = { error };
      this.#peer.post({ kind: "abort", id });
    }
  }

  #answered(message: Answer): void {
    const { id, outcome, memory, tokens } = message;
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    this.#memory = memory ?? this.#memory;
    if (tokens !== undefined && waiting?.tokens !== undefined) {
      waiting.tokens.ids = waiting.tokens.ids.slice(0, tokens.kept).concat(tokens.more);
    }
    waiting?.resolve(outcome);
    if (this.#waiting.size === 0) this.#peer.hold(false);
    this.#end();
  }

  // Once nothing is under way any more.
  #end(): void {
    if (!this.#closed || this.#waiting.size > 0) return;
    this.#crew.end();
    this.#peer.end();
  }

  #lose(cause: Error): void {
    this.#lost ??= new DeviceError("worker-lost", `model: its worker has ended: ${cause.message}`, { cause });
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(this.#lost);
    this.#peer.hold(false);
    this.#crew.end();
    this.#peer.end();
  }
}

/** What a question comes to when it does not fail. */
type Good = Exclude<Outcome, { readonly kind: "aborted" | "error" }>;
