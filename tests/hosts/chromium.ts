// Headless Chromium: opens pages and hears what they log.
import { CHROMIUM, PLAYWRIGHT } from "./host.ts";

// What is used of playwright-core; its own types come with an optional install.
interface Page {
  on(event: "console", listener: (message: { text(): string; type(): string }) => void): void;
  on(event: "pageerror", listener: (error: Error) => void): void;
  goto(url: string, options: { timeout: number }): Promise<unknown>;
  close(): Promise<void>;
}
interface PlaywrightBrowser {
  newPage(): Promise<Page>;
  version(): string;
  close(): Promise<void>;
}
interface Playwright {
  readonly chromium: {
    launch(options: { executablePath: string; args: string[]; timeout: number }): Promise<PlaywrightBrowser>;
  };
}

/** What a page logged. */
export interface PageLog {
  /** text after the prefix of the awaited line */
  readonly line: string;
  /** every console message before it */
  readonly others: readonly string[];
}

/** A running browser. */
export interface Browser {
  readonly version: string;
  /** Opens an address and waits for a console line that starts with `prefix`; the page is closed afterwards. */
  logged(url: string, prefix: string, limitMs: number): Promise<PageLog>;
  close(): Promise<void>;
}

const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts Chromium. */
export async function startChromium(): Promise<Browser> {
  const { chromium } = (await import(/* @vite-ignore */ PLAYWRIGHT)) as Playwright;
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGS, timeout: 30_000 });
  return {
    version: browser.version(),
    logged: (url, prefix, limitMs) => logged(browser, url, prefix, limitMs),
    close: () => browser.close(),
  };
}

async function logged(
  browser: PlaywrightBrowser,
  url: string,
  prefix: string,
  limitMs: number,
): Promise<PageLog> {
  const page = await browser.newPage();
  const others: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  try {
    const line = new Promise<string>((resolve, reject) => {
      timer = setTimeout(
        () => reject(new Error(`${url}: no answer in ${limitMs} ms; logged: ${others.join("\n")}`)),
        limitMs,
      );
      page.on("pageerror", reject);
      page.on("console", (message) => {
        const text = message.text();
        if (text.startsWith(prefix)) resolve(text.slice(prefix.length));
        else others.push(`${message.type()}: ${text}`);
      });
    });
    await Promise.all([line, page.goto(url, { timeout: limitMs })]);
    return { line: await line, others };
  } finally {
    clearTimeout(timer);
    await page.close();
  }
}
