// A loaded model as programs see it, on whatever thread it runs.

import type { Engine } from "../runtime/engine.ts";
import type { CreateContextOptions, Model as LocalModel } from "./model.ts";
import type { ModelContext as LocalContext } from "./model_context.ts";

/** The public members of a class: what another class can implement. */
type Public<T> = Pick<T, keyof T>;

/** What of its engine a model tells wherever it runs. */
export type ModelEngine = Pick<Engine, "nThreads" | "build" | "memory">;

/** A sequence of tokens over a model's weights. `tokens` are those of the last answer when the model is in a worker. */
export interface ModelContext extends Public<LocalContext> {}

/** A model ready to generate. Made by `loadModel`. `memory()` is as of the last answer when it is in a worker. */
export interface Model extends Omit<LocalModel, "engine" | "context" | "createContext"> {
  readonly engine: ModelEngine;
  /** the model's own context */
  readonly context: ModelContext;
  /**
   * A further context over the same weights: a conversation of its own. Contexts may be used at the same time; the
   * engine computes their steps one after the other.
   *
   * @throws {GraphError} bad-param, disposed; TypeError for a misspelt option
   * @throws {DeviceError} out-of-memory
   */
  createContext(options?: CreateContextOptions): Promise<ModelContext>;
}
