// Making room in a full context.

import type { Context } from "./context.ts";

/** What to do when a context is full; see {@link shift}. */
export interface ContextShift {
  /** tokens at the beginning that are never forgotten; the start token is kept in any case */
  readonly keep: number;
}

/**
 * Forgets the older half of the tokens after the first `keep`. Keys depend on their positions, so the tokens that stay
 * are computed again at their new ones: the context is then exactly what it would be had it been given these tokens.
 *
 * @returns false when there is nothing to forget; the context is as before
 */
export async function shift(context: Context, keep: number, signal?: AbortSignal): Promise<boolean> {
  const ids = context.tokens;
  const forgotten = Math.floor((ids.length - keep) / 2);
  if (forgotten < 1) return false;
  context.rewind(keep);
  await context.append(ids.slice(keep + forgotten), signal);
  return true;
}
