// Headless Chromium.
import { type Browser, logged, type PageMaker } from "./browser.ts";
import { CHROMIUM, PLAYWRIGHT } from "./host.ts";

interface PlaywrightBrowser extends PageMaker {
  version(): string;
  close(): Promise<void>;
}
interface Playwright {
  readonly chromium: {
    launch(options: { executablePath: string; args: string[]; timeout: number }): Promise<PlaywrightBrowser>;
  };
}

const ARGS = [
  "--no-sandbox",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Starts Chromium without a GPU. */
export function startChromium(): Promise<Browser> {
  return start(["--disable-gpu"]);
}

/** Starts Chromium with WebGPU, computed on the CPU by its own SwiftShader. */
export function startWebGpuChromium(): Promise<Browser> {
  return start(["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]);
}

async function start(args: readonly string[]): Promise<Browser> {
  const { chromium } = (await import(/* @vite-ignore */ PLAYWRIGHT)) as Playwright;
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: [...ARGS, ...args],
    timeout: 30_000,
  });
  return {
    version: browser.version(),
    logged: (url, prefix, limitMs) => logged(browser, url, prefix, limitMs),
    close: () => browser.close(),
  };
}
