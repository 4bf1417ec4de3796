// Stop strings: holds back text as long as it could be the beginning of one.

import { GraphError } from "../errors.ts";

/**
 * Passes text through up to the first stop string. The stop string that is complete first wins, so the result does not depend on
 * how the text is cut into parts.
 */
export class StopFilter {
  readonly #stops: readonly string[];
  #held = "";
  #found: string | undefined;

  /** @throws {GraphError} bad-param for an empty stop string, and for anything but a list of strings */
  constructor(stops: readonly string[]) {
    if (!Array.isArray(stops) || stops.some((stop) => typeof stop !== "string" || stop === ""))
      throw new GraphError("bad-param", "stop: expected a list of texts, none of them empty", {
        actual: stops,
      });
    this.#stops = stops;
  }

  /** The stop string that was met; undefined until then. */
  get found(): string | undefined {
    return this.#found;
  }

  /** Text that can no longer be part of a stop string. Nothing more comes once one was met. */
  push(text: string): string {
    if (this.#found !== undefined) return "";
    this.#held += text;
    const end = this.#firstMatch();
    if (end > 0) return this.#cut(end - this.#found!.length, "");
    const keep = this.#undecided();
    return this.#cut(keep, this.#held.slice(keep));
  }

  /** The rest, when no more text comes. */
  flush(): string {
    return this.#found === undefined ? this.#cut(this.#held.length, "") : "";
  }

  #cut(at: number, rest: string): string {
    const out = this.#held.slice(0, at);
    this.#held = rest;
    return out;
  }

  /** Where the stop string that ends first ends (of two, the longer one), and notes it; 0 when there is none. */
  #firstMatch(): number {
    let best = 0;
    for (const stop of this.#stops) {
      const at = this.#held.indexOf(stop);
      if (at < 0) continue;
      const end = at + stop.length;
      if (best !== 0 && (end > best || (end === best && stop.length <= this.#found!.length))) continue;
      best = end;
      this.#found = stop;
    }
    return best;
  }

  /** First position from which the held text could still become a stop string. */
  #undecided(): number {
    let from = this.#held.length;
    for (const stop of this.#stops) {
      for (let at = Math.max(0, this.#held.length - stop.length + 1); at < from; at++) {
        if (stop.startsWith(this.#held.slice(at))) from = at;
      }
    }
    return from;
  }
}
