// What the drivers of both browsers have in common: opening a page and hearing what it logs.

/** What is used of a driver's page; the drivers' own types come with an optional install. */
interface Page {
  on(event: "console", listener: (message: { text(): string; type(): string }) => void): void;
  on(event: "pageerror", listener: (error: Error) => void): void;
  goto(url: string, options: { timeout: number }): Promise<unknown>;
  close(): Promise<void>;
}

/** Makes pages. */
export interface PageMaker {
  newPage(): Promise<Page>;
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

/** See {@link Browser.logged}. */
export async function logged(
  browser: PageMaker,
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
      // Firefox tells here too what a policy blocked, which nothing in the page threw.
      page.on("pageerror", (error) => {
        if (error.message.startsWith("Content-Security-Policy:")) others.push(error.message);
        else reject(error);
      });
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
