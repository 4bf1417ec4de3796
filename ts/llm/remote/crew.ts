// The threads of a model in a worker: its page makes them.
//
// In Firefox a worker that makes a worker may wait for it forever. Seen in ESR 153 under load: maker and new worker wait on
// one condition variable, as if announcing the new one to the debugger had woken it and not its maker. A page does not wait.

import { type MakeThread, type Thread, webThread } from "../../runtime/threads.ts";

/** What a model's worker wants of its page for one of its threads. */
export type ThreadOrder =
  | { readonly kind: "hire"; readonly thread: number; readonly url: string | undefined }
  | { readonly kind: "brief"; readonly thread: number; readonly message: Parameters<Thread["post"]>[0] }
  | { readonly kind: "dismiss"; readonly thread: number };

/** What a thread said, or why it says nothing. */
export interface ThreadNews {
  readonly kind: "thread";
  readonly thread: number;
  readonly said?: unknown;
  readonly failed?: string;
}

/** The page's side: the workers of one model. */
export class PageThreads {
  readonly #tell: (news: ThreadNews) => void;
  readonly #threads = new Map<number, Thread>();

  constructor(tell: (news: ThreadNews) => void) {
    this.#tell = tell;
  }

  /** Follows an order. */
  hear(order: ThreadOrder): void {
    const { kind, thread } = order;
    if (kind === "hire") this.#hire(thread, order.url);
    else if (kind === "brief") this.#threads.get(thread)?.post(order.message);
    else this.#dismiss(thread);
  }

  /** Ends all threads. */
  end(): void {
    for (const thread of this.#threads.keys()) this.#dismiss(thread);
  }

  // A thread speaks once: that it is ready. Then it sleeps in wasm between runs.
  #hire(thread: number, url: string | undefined): void {
    const fail = (error: unknown): void =>
      this.#tell({ kind: "thread", thread, failed: (error as Error).message });
    try {
      const worker = webThread(url);
      this.#threads.set(thread, worker);
      worker.next().then((said) => this.#tell({ kind: "thread", thread, said }), fail);
    } catch (error) {
      fail(error);
    }
  }

  #dismiss(thread: number): void {
    this.#threads.get(thread)?.terminate();
    this.#threads.delete(thread);
  }
}

/** The worker's side: makes threads by orders to the page. */
export class Orders {
  readonly #post: (order: ThreadOrder) => void;
  readonly #news = new Map<number, (news: ThreadNews) => void>();
  #next = 1;

  constructor(post: (order: ThreadOrder) => void) {
    this.#post = post;
  }

  /** Hears of a thread. */
  hear(news: ThreadNews): void {
    this.#news.get(news.thread)?.(news);
  }

  /** See {@link MakeThread}. */
  readonly make: MakeThread = (url) => {
    const thread = this.#next++;
    const first = new Promise<unknown>((resolve, reject) => {
      this.#news.set(thread, ({ said, failed }) =>
        failed === undefined ? resolve(said) : reject(new Error(failed)),
      );
    });
    first.catch(() => undefined); // it may fail before anybody waits for it
    this.#post({ kind: "hire", thread, url: url === undefined ? undefined : String(url) });
    return {
      post: (message) => this.#post({ kind: "brief", thread, message }),
      next: () => first,
      terminate: () => {
        this.hear({ kind: "thread", thread, failed: "ended" });
        this.#news.delete(thread);
        this.#post({ kind: "dismiss", thread });
      },
    };
  };
}
