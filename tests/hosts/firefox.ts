// Headless Firefox over WebDriver BiDi; nothing of it is left when it has been closed.
import type { ChildProcess } from "node:child_process";
import { type Browser, logged, type PageMaker } from "./browser.ts";
import { FIREFOX, PUPPETEER } from "./host.ts";
import { killGroup } from "./process.ts";

interface PuppeteerBrowser extends PageMaker {
  version(): Promise<string>;
  process(): ChildProcess | null;
  close(): Promise<void>;
}
interface Puppeteer {
  launch(options: {
    browser: "firefox";
    executablePath: string;
    headless: true;
    timeout: number;
    protocolTimeout: number;
    extraPrefsFirefox: Readonly<Record<string, unknown>>;
  }): Promise<PuppeteerBrowser>;
}

const START_MS = 45_000;
const PROTOCOL_MS = 60_000;
const END_MS = 10_000;

/** Starts Firefox, without a GPU and without the services that look for news. */
export async function startFirefox(): Promise<Browser> {
  const puppeteer = (await import(/* @vite-ignore */ PUPPETEER)) as Puppeteer;
  const browser = await puppeteer.launch({
    browser: "firefox",
    executablePath: FIREFOX,
    headless: true,
    timeout: START_MS,
    protocolTimeout: PROTOCOL_MS,
    extraPrefsFirefox: { "dom.webgpu.enabled": false, "network.captive-portal-service.enabled": false },
  });
  return {
    version: await browser.version(),
    logged: (url, prefix, limitMs) => logged(browser, url, prefix, limitMs),
    close: () => close(browser),
  };
}

// Asks it to end; its process group is killed when it has not within END_MS.
async function close(browser: PuppeteerBrowser): Promise<void> {
  const child = browser.process()!;
  await Promise.race([browser.close().catch(() => undefined), pause(END_MS)]);
  for (let waited = 0; groupLives(child); waited += 100) {
    if (waited >= END_MS) throw new Error(`firefox: processes of group ${child.pid} are left`);
    killGroup(child);
    await pause(100);
  }
}

function groupLives(child: ChildProcess): boolean {
  try {
    return process.kill(-child.pid!, 0);
  } catch {
    return false;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}
