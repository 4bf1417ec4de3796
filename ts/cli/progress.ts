// How far something is: one line of the terminal's error output, gone before anything else is written there.

import type { ProgressListener } from "../llm/index.ts";

/** What is over sooner shows nothing, ms. */
const DELAY = 300;

let shown = false;

/** Shows progress; silent where errors do not go to a terminal, and for what is over at once. */
export function progressLine(): ProgressListener {
  const start = performance.now();
  return ({ phase, loaded, total }) => {
    if (loaded >= total) return clearProgress();
    if (!process.stderr.isTTY || (performance.now() - start < DELAY && !shown)) return;
    shown = true;
    process.stderr.write(`\r${phase} ${Math.floor((100 * loaded) / total)}%`);
  };
}

/** Takes the line back, if it stands there. */
export function clearProgress(): void {
  if (shown) process.stderr.write("\r\x1b[K");
  shown = false;
}

/** Writes a line for people, as the command's. */
export function complain(message: string): void {
  clearProgress();
  console.error(`slackwater: ${message}`);
}
