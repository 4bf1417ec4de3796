// The script of the worker that models run in, as the script tag's file has it: the file itself, which is one function.

declare const slackwaterFile: () => unknown;

/** See model_worker.ts. */
export async function modelWorkerScript(): Promise<string | undefined> {
  return `(${String(slackwaterFile)})().serveModels()`;
}
