// Language models from GGUF files: the public surface of slackwater/llm.

export type { KvType } from "./cache.ts";
export type { EvaluateOptions, Evaluation } from "./evaluate.ts";
export type {
  GenerateOptions,
  Generation,
  Progress,
  ProgressListener,
  StopReason,
  Timings,
} from "./generate.ts";
export { type LoadOptions, loadModel } from "./load.ts";
export type { TokenLogprobs, TokenProbability } from "./logprobs.ts";
export { type CreateContextOptions, Model } from "./model.ts";
export { ModelContext } from "./model_context.ts";
export type { Params, RopeScaling } from "./params.ts";
export {
  type ContextOptions,
  type ModelHeader,
  type ModelMemory,
  type ModelPlan,
  modelGraphs,
  planModel,
  readModelHeader,
} from "./plan_model.ts";
export { SAMPLING_DEFAULTS, type SamplingOptions } from "./sampling.ts";
export type { ContextShift } from "./shift.ts";
export type { DecodeOptions, EncodeOptions, Tokenizer } from "./tokenizer.ts";
