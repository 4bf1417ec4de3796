// What a page and the worker that its model runs in say to each other.
//
//   page                              worker
//   start (cores)                ->
//                                <-   ready
//   call "load" (source, options) ->
//                                <-   event (progress) ...
//                                <-   answer: what is to know of the model
//   call "generate"              ->
//                                <-   answer: a stream
//   next                         ->                              one step at a time: nobody runs ahead
//                                <-   event (a token) ...
//                                <-   answer: the step
//   abort                        ->                              of a call, or of the stream that it opened
//                                <-   hire, brief, dismiss       threads that the page makes for it
//   thread (said or failed)      ->
//
// Calls are answered in any order, each once: with a value, or with an error.

import type { MemoryReport } from "../../runtime/arena.ts";
import type { Engine } from "../../runtime/engine.ts";
import type { Params } from "../params.ts";
import type { ThreadNews, ThreadOrder } from "./crew.ts";
import type { ErrorData } from "./errors.ts";

/** Whom a call is made to: the worker, the model, a context (0 is the model's own), or the chat of a context. */
export type Target = "worker" | "model" | { readonly context: number } | { readonly chat: number };

/** First message to the worker. */
export interface Start {
  readonly kind: "start";
  /** cores for a script that has none */
  readonly cores: Uint8Array<ArrayBuffer> | undefined;
  /** name of the lock that the worker is to hold as long as it lives */
  readonly lock: string;
  /** the page makes the worker's threads */
  readonly crew: boolean;
}

/** What of an options object cannot be sent. */
export interface Hooks {
  /** position of the object among the arguments */
  readonly at: number;
  readonly signal: "none" | "live" | "aborted";
  /** paths of functions that are called as events */
  readonly listens: readonly string[];
}

/** A method to run. */
export interface Call {
  readonly kind: "call";
  readonly id: number;
  readonly on: Target;
  readonly method: string;
  readonly args: readonly unknown[];
  readonly hooks: Hooks | undefined;
}

/** The next step of a stream, or its end before time. */
export interface Step {
  readonly kind: "next" | "return";
  readonly id: number;
  /** the call that opened it */
  readonly stream: number;
}

/** The signal of a call was aborted. */
export interface Abort {
  readonly kind: "abort";
  readonly id: number;
}

export type ToWorker = Start | Call | Step | Abort | ThreadNews;

/** What a method came to. */
export type Outcome =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "stream" }
  | { readonly kind: "context"; readonly context: number; readonly nCtx: number }
  | { readonly kind: "step"; readonly done: boolean; readonly value: unknown }
  | { readonly kind: "aborted" }
  | { readonly kind: "error"; readonly error: ErrorData };

/** What is known of a model on the page as of an answer. */
export interface Known {
  readonly memory: MemoryReport | undefined;
  /** tokens of the context that was called: those kept of the list before, and those after them */
  readonly tokens: { readonly kept: number; readonly more: readonly number[] } | undefined;
}

/** The answer to a call or a step. */
export interface Answer extends Known {
  readonly kind: "answer";
  readonly id: number;
  readonly outcome: Outcome;
}

/** A function among a call's options was called. */
export interface HookCall {
  readonly kind: "event";
  readonly id: number;
  readonly name: string;
  readonly args: readonly unknown[];
}

export type FromWorker = { readonly kind: "ready" } | Answer | HookCall | ThreadOrder;

/** What a page is told of a loaded model. */
export interface LoadedModel extends Pick<Engine, "nThreads" | "build"> {
  readonly params: Params;
  readonly nCtx: number;
  /** the file's tokenizer, as a GGUF header */
  readonly vocabulary: Uint8Array<ArrayBuffer>;
}
