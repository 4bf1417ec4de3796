// Runs one case of the model-level corpus through the stage it names.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { judgeAccept, judgeError } from "./judge.ts";
import { type Entry, corpusDir } from "./manifest.ts";

/** Thrown by a stage for a model it knows by name but does not build yet; the case counts as not built. */
export class NotBuilt extends Error {}

/**
 * What is done with a model file of the corpus. A stage that is absent is not built. Each loads the file, does its
 * work, gives everything back, and throws what the library throws.
 */
export interface Stages {
  load?(bytes: Uint8Array): Promise<void>;
  /** tokenizes a text that the vocabulary may not cover */
  encode?(bytes: Uint8Array): Promise<void>;
  /** renders the file's chat template */
  chat?(bytes: Uint8Array): Promise<void>;
}

/** Why the case fails; undefined when it passes; null when its stage is not built. */
export async function runArch(entry: Entry, stages: Stages): Promise<string | undefined | null> {
  const stage = stages[entry.expect.stage ?? "load"];
  if (stage === undefined) return null;
  const bytes = new Uint8Array(readFileSync(join(corpusDir(), entry.file ?? "")));
  try {
    await stage(bytes);
    return judgeAccept(entry.expect);
  } catch (error) {
    return error instanceof NotBuilt ? null : judgeModelError(entry, error);
  }
}

/** Model-level errors have a key or a tensor rather than a byte position. */
function judgeModelError({ expect }: Entry, error: unknown): string | undefined {
  const reason = judgeError(expect, error);
  return reason?.startsWith("no byte position") === true ? undefined : reason;
}
