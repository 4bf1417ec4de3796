// Language models from GGUF files: the public surface of slackwater/llm.

export {
  type DeviceCode,
  DeviceError,
  type ErrorDetails,
  type FormatCode,
  FormatError,
  type GraphCode,
  GraphError,
} from "../errors.ts";
export { Type, typeName } from "../types.ts";
export type { KvType } from "./cache.ts";
export { Chat, type ChatOptions, ChatStream, Completions } from "./chat/completions.ts";
export type { ChatMessage, ChatTool, TextPart, ToolCall } from "./chat/messages.ts";
export type { Json } from "./chat/plain.ts";
export type { PromptOptions } from "./chat/prompt.ts";
export type { ChatRequest } from "./chat/request.ts";
export type {
  ChatChunk,
  ChatCompletion,
  ChatDelta,
  ChatLogprobs,
  ChatTokenLogprob,
  ChatUsage,
  FinishReason,
} from "./chat/response.ts";
export type { TemplateVariables } from "./chat/template.ts";
export type { MadeToolCall } from "./chat/tool_calls.ts";
export type { Embedding, EmbedOptions } from "./embed.ts";
export type { EvaluateOptions, Evaluation } from "./evaluate.ts";
export type {
  GenerateOptions,
  Generation,
  Progress,
  ProgressListener,
  StopReason,
  Timings,
} from "./generate.ts";
export type { LayerParams } from "./layer_params.ts";
export type { TokenLogprobs, TokenProbability } from "./logprobs.ts";
export { type CreateContextOptions, Model as LocalModel } from "./model.ts";
export type { ModelContext as LocalModelContext } from "./model_context.ts";
export type { LatentParams, Params, Pooling, Rope, RopeScaling, RoutingParams } from "./params.ts";
export {
  type ContextOptions,
  type ModelHeader,
  type ModelMemory,
  type ModelPlan,
  modelGraphs,
  planModel,
  readModelHeader,
} from "./plan_model.ts";
export { type QuantizeOptions, quantizeGguf, type QuantizeReport } from "./quantize/quantize.ts";
export type { RankedDocument, RerankOptions } from "./rerank.ts";
export { type LoadModelOptions as LoadOptions, loadModel } from "./remote/load.ts";
export type { WorkerLike } from "./remote/peer.ts";
export { serveModels } from "./remote/server.ts";
export { SAMPLING_DEFAULTS, type SamplingOptions } from "./sampling.ts";
export type { ContextShift } from "./shift.ts";
export type { SpecialIds } from "./special.ts";
export type { Model, ModelContext, ModelEngine } from "./surface.ts";
export type { DecodeOptions, EncodeOptions, Tokenizer } from "./tokenizer.ts";
