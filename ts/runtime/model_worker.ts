// The script of the worker that models run in, as text. Bundles hold packed_model_worker.ts or script_model_worker.ts in
// its place.

/** The script; undefined where there is none: the sources themselves are no script. */
export async function modelWorkerScript(): Promise<string | undefined> {
  return undefined;
}
