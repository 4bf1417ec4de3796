// Web locks, as far as they are used: a thread that ends, however it ends, lets go of its locks. Not all hosts have them.

/** The part of LockManager that is used. */
export interface Locks {
  request(name: string, options: { readonly signal?: AbortSignal }, granted: () => unknown): Promise<unknown>;
}

/** The host's locks. */
export function hostLocks(): Locks | undefined {
  return (globalThis.navigator as { readonly locks?: Locks } | undefined)?.locks;
}
