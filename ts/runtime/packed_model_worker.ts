// The script of the worker that models run in, as the modules for npm hold it: a bundle of its own, without the cores.

import packed from "../../build/model_worker.deflate";
import { inflate } from "./inflate.ts";

/** See model_worker.ts. */
export async function modelWorkerScript(): Promise<string | undefined> {
  return new TextDecoder().decode(await inflate(packed));
}
