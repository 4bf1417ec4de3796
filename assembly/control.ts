// Threads: the control block, the barrier, job hand-out and the error cell.
//
// One module, one memory, one instance per thread. All threads walk the same node list; before nodes that need it they meet
// at a barrier that spins a while and then sleeps. A thread that fails sets the error cell and moves the barrier on, so the
// others leave at once. Thread 0 hands out the job and takes part in it; workers sleep on the job number in between.
//
// Workers may come late: thread 0 computes alone until all have said that they are ready, and hands out no job before.
// A worker reads the job number, then counts itself ready, then waits for the number to change. The number changes with a
// job for all, or at the end; so a worker that is counted has seen no job and misses none, whenever it came:
//
//   worker    seen = JOB     READY + 1       JOB != seen? ...                         take it, DONE + 1
//   thread 0    alone          alone     READY is all: job -> cells, JOB + 1, compute, wait for DONE
//
// Thread 0 alone writes nothing that workers read. The kind LEAVE stays: a worker that comes after it sees it and ends.
//
// While thread 0 fills memory the workers may touch it in front of it. They take its pages from the end, by counting LAST
// down; thread 0 ends that job by setting LAST to 0, and waits for DONE before it hands out another.

import {
  CTRL_ABORT,
  CTRL_DONE,
  CTRL_ERROR,
  CTRL_ERROR_NODE,
  CTRL_FIRST,
  CTRL_JOB,
  CTRL_KIND,
  CTRL_LAST,
  CTRL_NODE,
  CTRL_NODE_SHIFT,
  CTRL_NTH,
  CTRL_PATIENCE,
  CTRL_PHASE,
  CTRL_READY,
  CTRL_RECORDS,
  CTRL_SLEEPERS,
  CTRL_SPIN,
  GROUP_MAX,
  Status,
} from "./abi";
import { clearClaims } from "./share";

const KIND_COMPUTE = 1;
const KIND_LEAVE = 2;
const KIND_TOUCH = 3;

// Longest single sleep within a run and between runs, ns. A sleeper looks again after it, so a lost wake-up costs time,
// never a hang.
const NAP: i64 = 100_000_000;
const LONG_NAP: i64 = 60_000_000_000;
// A worker looks so much longer for the next job than for the others at a barrier: between two tokens thread 0 chooses one,
// and to be woken takes as long again. At a barrier somebody has lost his core, and may want this one.
const BETWEEN_JOBS: i32 = 10;
// Bytes of the smallest page of any system.
const SYSTEM_PAGE: usize = 4096;
// What atomic.wait returns when nobody woke the sleeper.
const TIMED_OUT = 2;
// More than the arrivals of a run, few enough that all threads may add it: the barrier lets go of whoever waits.
const LET_GO: i32 = 1 << 24;

/** Sets the error cell for thread `ith` and lets everybody leave the barrier. Called from outside after a trap. */
export function fail(ith: i32, status: i32): void {
  if (atomic.cmpxchg<i32>(CTRL_ERROR, Status.OK, status) == Status.OK) {
    atomic.store<i32>(CTRL_ERROR_NODE, atomic.load<i32>(nodeCell(ith)));
  }
  release();
}

// Lets go of those who wait at the barrier.
function release(): void {
  atomic.add<i32>(CTRL_PHASE, LET_GO);
  wake(CTRL_PHASE);
}

// Waking is a call into the host that takes a lock, so nobody is woken when nobody sleeps. A thread counts itself before
// it looks at the cell for the last time: it is seen here, or it sees the cell's new value.
function wake(cell: usize): void {
  if (atomic.load<i32>(CTRL_SLEEPERS) != 0) atomic.notify(cell, -1);
}

function nodeCell(ith: i32): usize {
  return <usize>CTRL_NODE + ((<usize>ith) << CTRL_NODE_SHIFT);
}

/**
 * Waits for all `nth` threads; false when the run has failed and everybody must leave. Arrivals are all that is counted: the last
 * one is what the others wait for, so their cache line moves once for each thread.
 */
export function barrier(nth: i32): bool {
  if (nth > 1) {
    if (atomic.load<i32>(CTRL_ERROR) != Status.OK) return false;
    const arrived = atomic.add<i32>(CTRL_PHASE, 1) + 1;
    const missing = (nth - (arrived % nth)) % nth;
    if (missing == 0) wake(CTRL_PHASE);
    else if (!sleepUntil(CTRL_PHASE, arrived + missing, 1, load<i32>(CTRL_PATIENCE), NAP)) giveUp();
  }
  return atomic.load<i32>(CTRL_ERROR) == Status.OK;
}

// Returns once the count in the cell has come to `goal`; false after `naps` naps in vain. Before the first one it looks
// `spins` times as often as at a barrier.
function sleepUntil(cell: usize, goal: i32, spins: i32, naps: i32, nap: i64): bool {
  for (let i = spins * load<i32>(CTRL_SPIN); i > 0; i--) {
    if (atomic.load<i32>(cell) - goal >= 0) return true;
  }
  for (let count = atomic.load<i32>(cell); count - goal < 0; count = atomic.load<i32>(cell)) {
    atomic.add<i32>(CTRL_SLEEPERS, 1);
    const result = atomic.wait<i32>(cell, count, nap);
    atomic.sub<i32>(CTRL_SLEEPERS, 1);
    if (result == TIMED_OUT && --naps <= 0) return false;
  }
  return true;
}

// A thread has not come: it is dead, or stuck in a node.
function giveUp(): void {
  atomic.cmpxchg<i32>(CTRL_ERROR, Status.OK, Status.TIMEOUT);
  atomic.cmpxchg<i32>(CTRL_ERROR_NODE, -1, atomic.load<i32>(CTRL_NODE)); // about where thread 0 is
  release();
}

/** Remembers the node that thread `ith` is about to run, for the error report. */
export function enter(ith: i32, node: i32): void {
  store<i32>(nodeCell(ith), node);
}

/** Thread 0, before each barrier: turns the abort cell into the error cell, so that all leave together. */
export function checkAbort(): void {
  if (atomic.load<i32>(CTRL_ABORT) != 0) {
    atomic.cmpxchg<i32>(CTRL_ERROR, Status.OK, Status.ABORTED);
  }
}

/** Prepares a run of nodes [first, last). With workers, all of which are ready: hands them the job. */
export function post(records: usize, first: i32, last: i32, nth: i32): void {
  atomic.store<i32>(CTRL_ERROR, Status.OK);
  atomic.store<i32>(CTRL_ERROR_NODE, -1);
  if (nth == 1) return;
  store<usize>(CTRL_RECORDS, records);
  store<i32>(CTRL_FIRST, first);
  store<i32>(CTRL_LAST, last);
  store<i32>(CTRL_NTH, nth);
  clearClaims(0, 2 * GROUP_MAX);
  atomic.store<i32>(CTRL_PHASE, 0);
  handOut(KIND_COMPUTE);
}

function handOut(kind: i32): void {
  store<i32>(CTRL_KIND, kind);
  atomic.store<i32>(CTRL_DONE, 0);
  atomic.add<i32>(CTRL_JOB, 1);
  wake(CTRL_JOB);
}

/**
 * Has the workers, all of which are ready, touch pages [first, last) of 64 KiB, which costs the first one to do so most of
 * the time it takes to fill them. Before the next job comes {@link endTouch}.
 */
export function touch(first: i32, last: i32): void {
  store<i32>(CTRL_FIRST, first);
  store<i32>(CTRL_LAST, last);
  handOut(KIND_TOUCH);
}

/** Ends what {@link touch} began, and waits for the `nth - 1` workers. Returns a Status. */
export function endTouch(nth: i32): i32 {
  atomic.store<i32>(CTRL_LAST, 0);
  return join(nth);
}

/** Is the job to touch pages? */
export function isTouch(): bool {
  return load<i32>(CTRL_KIND) == KIND_TOUCH;
}

/** A worker's part of it. To add nothing changes no byte, whoever writes there at the same time. */
export function touchPages(): void {
  const first = load<i32>(CTRL_FIRST);
  for (;;) {
    const page = atomic.sub<i32>(CTRL_LAST, 1) - 1;
    if (page < first) return;
    const p = (<usize>page) << 16;
    for (let at: usize = 0; at < 65536; at += SYSTEM_PAGE) atomic.add<i32>(p + at, 0);
  }
}

/** A worker has finished its part. */
export function done(): void {
  atomic.add<i32>(CTRL_DONE, 1);
  wake(CTRL_DONE);
}

/** Thread 0 waits until the other `nth - 1` have finished. Returns a Status. */
export function join(nth: i32): i32 {
  if (nth > 1 && !sleepUntil(CTRL_DONE, nth - 1, 1, load<i32>(CTRL_PATIENCE), NAP)) {
    giveUp();
    return Status.TIMEOUT;
  }
  return atomic.load<i32>(CTRL_ERROR);
}

/** Number of the job handed out last; a worker that starts reads it before it is ready, and takes the next one. */
export function jobNumber(): i32 {
  return atomic.load<i32>(CTRL_JOB);
}

/** A worker announces itself: from now on it sees every job. */
export function ready(): void {
  atomic.add<i32>(CTRL_READY, 1);
}

/** Sleeps until a job after `seen` is there. Returns its number, or -1 when the worker shall end. */
export function nextJob(seen: i32): i32 {
  while (
    atomic.load<i32>(CTRL_KIND) != KIND_LEAVE &&
    !sleepUntil(CTRL_JOB, seen + 1, BETWEEN_JOBS, i32.MAX_VALUE, LONG_NAP)
  );
  return atomic.load<i32>(CTRL_KIND) == KIND_LEAVE ? -1 : atomic.load<i32>(CTRL_JOB);
}

/** Ends all workers, also those that are yet to come. */
export function leave(): void {
  atomic.store<i32>(CTRL_KIND, KIND_LEAVE);
  atomic.add<i32>(CTRL_JOB, 1);
  atomic.notify(CTRL_JOB, -1);
}
