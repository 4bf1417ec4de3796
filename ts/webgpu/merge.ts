// Dispatches that run as one: neighbours of one kernel over the same bindings of which none needs what another writes.
//
//   q = Wq x   k = Wk x   v = Wv x        three dispatches of a few workgroups each -> one
//
// A dispatch costs some 30 microseconds on most devices, as much as a small product.

import type { Place } from "./binding.ts";
import type { Dispatch } from "./kernel.ts";
import { MAX_JOBS, type Pattern, patternKey } from "./module.ts";

/** What is to be known of a dispatch. */
export interface Job {
  readonly dispatch: Dispatch;
  readonly pattern: Pattern;
  readonly group: object;
  readonly places: readonly Place[];
}

/** Runs of neighbours that may run as one: index of the first of each, in order. */
export function mergeRuns(jobs: readonly Job[]): number[] {
  const firsts: number[] = [];
  jobs.forEach((job, i) => {
    const first = firsts.at(-1);
    const run = first === undefined ? [] : jobs.slice(first, i);
    const joins = run.length > 0 && run.length < MAX_JOBS && run.every((other) => fit(other, job));
    if (!joins) firsts.push(i);
  });
  return firsts;
}

function fit(a: Job, b: Job): boolean {
  const alike =
    a.dispatch.mergeable === true &&
    a.dispatch.key === b.dispatch.key &&
    a.group === b.group &&
    patternKey(a.pattern) === patternKey(b.pattern);
  return alike && !needs(a, b) && !needs(b, a);
}

// True when `a` writes what `b` reads or writes. What both note of bad ids is in no order.
function needs(a: Job, b: Job): boolean {
  return a.places.some((p, i) => {
    const { access, of } = a.dispatch.bind[i]!;
    return access === "write" && of !== "fault" && b.places.some((q) => overlap(p, q));
  });
}

function overlap(p: Place, q: Place): boolean {
  return p.memory === q.memory && p.start < q.start + q.bytes && q.start < p.start + p.bytes;
}
