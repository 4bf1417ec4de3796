// The threads of a model in a worker, made by its page: both sides wired to each other, over workers that only note.
import { afterEach, describe, expect, it, vi } from "vitest";
import { Orders, PageThreads, type ThreadNews } from "../ts/llm/remote/crew.ts";

const INIT = { module: {}, memory: new WebAssembly.Memory({ initial: 1 }), ith: 1, leader: false };

/** A browser's worker that keeps what it is told. */
class NotingWorker {
  static readonly made: NotingWorker[] = [];
  static blocked = false;
  onmessage: ((e: { data: unknown }) => void) | undefined;
  onerror: ((e: { message: string }) => void) | undefined;
  readonly told: unknown[] = [];
  ended = false;

  constructor(readonly url: string | URL) {
    if (NotingWorker.blocked) throw new Error("blocked by policy");
    NotingWorker.made.push(this);
  }

  postMessage(message: unknown): void {
    this.told.push(message);
  }

  terminate(): void {
    this.ended = true;
  }
}

function wired(): { readonly crew: PageThreads; readonly orders: Orders } {
  vi.stubGlobal("Worker", NotingWorker);
  const crew: PageThreads = new PageThreads((news: ThreadNews) => orders.hear(news));
  const orders: Orders = new Orders((order) => crew.hear(order));
  return { crew, orders };
}

describe("threads made by the page", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    NotingWorker.made.length = 0;
    NotingWorker.blocked = false;
  });

  it("hear what the model's worker tells them, and are heard", async () => {
    const { orders } = wired();
    const threads = [orders.make("https://a.example/1.js"), orders.make(undefined)];
    for (const [i, thread] of threads.entries()) thread.post({ ...INIT, ith: i + 1 });
    const [first, second] = NotingWorker.made;
    expect([String(first!.url), String(second!.url).slice(0, 5)]).toEqual([
      "https://a.example/1.js",
      "blob:",
    ]);
    expect([first!.told, second!.told]).toEqual([[INIT], [{ ...INIT, ith: 2 }]]);
    second!.onmessage!({ data: "ready 2" });
    first!.onmessage!({ data: "ready 1" });
    expect(await Promise.all(threads.map((t) => t.next()))).toEqual(["ready 1", "ready 2"]);
  });

  it("are refused where the page may make none, also before anybody asks", async () => {
    const { orders } = wired();
    NotingWorker.blocked = true;
    const thread = orders.make(undefined);
    await Promise.resolve();
    await expect(thread.next()).rejects.toThrow("blocked by policy");
  });

  it("that fail by an event reject whoever waits", async () => {
    const { orders } = wired();
    const thread = orders.make(undefined);
    const answer = thread.next();
    NotingWorker.made[0]!.onerror!({ message: "" });
    await expect(answer).rejects.toThrow("blocked");
  });

  it("end one by one as the model's worker asks, and all with it", async () => {
    const { crew, orders } = wired();
    const threads = [1, 2, 3].map(() => orders.make(undefined));
    const answer = threads[1]!.next();
    threads[1]!.terminate();
    await expect(answer).rejects.toThrow("ended");
    const ended = (): boolean[] => NotingWorker.made.map((w) => w.ended);
    expect(ended()).toEqual([false, true, false]);
    crew.end();
    expect(ended()).toEqual([true, true, true]);
  });
});
