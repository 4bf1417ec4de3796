// Units of a node (rows, pairs of quads, panels; of attention, blocks of rows) that threads take as they come, so that all
// are done at the same time though one was slowed down.
//
// A node has a claim: the number of units taken so far. Parts shrink towards the end: large ones at first, since memory is
// read fastest in long streams. Threads count the shared nodes since their last meeting alike, so a node's claim is known by
// that count; those of one group stand in one bank, and are cleared by thread 0 when all work on the other.

import { CTRL_CLAIMS, CTRL_CLAIM_SHIFT, GROUP_MAX } from "./abi";

/** Claim `i` of the groups of one parity. */
export function claimOf(parity: i32, i: i32): usize {
  return <usize>CTRL_CLAIMS + ((<usize>(parity * GROUP_MAX + i)) << CTRL_CLAIM_SHIFT);
}

/** Nothing of the first `n` claims of a bank is taken any more. */
export function clearClaims(parity: i32, n: i32): void {
  for (let i = 0; i < n; i++) store<i32>(claimOf(parity, i), 0);
}

/** Where this thread's next part of [done, last) starts; `last`: none is left. Without a claim all of it is one part. */
export function nextPart(claim: usize, done: i32, last: i32, nth: i32, least: i32): i32 {
  if (claim == 0) return done;
  for (let first = atomic.load<i32>(claim); first < last;) {
    const seen = atomic.cmpxchg<i32>(claim, first, partEnd(claim, first, last, nth, least));
    if (seen == first) return first;
    first = seen;
  }
  return last;
}

/** Where the part that starts at `first` ends: after `least` units or more. */
export function partEnd(claim: usize, first: i32, last: i32, nth: i32, least: i32): i32 {
  if (claim == 0) return last;
  return min(last, first + max(least, (last - first) / (2 * nth)));
}
