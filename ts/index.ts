// The public surface of the engine.

export { Flag, Glu, Op, Unary } from "../assembly/abi.ts";
export { DeviceError, type ErrorDetails, FormatError, GraphError } from "./errors.ts";
export { type ComputeOptions, Graph } from "./graph/graph.ts";
export type {
  BackendPlan,
  Consumer,
  PeakStep,
  Plan,
  PlanBuffer,
  PlanOrder,
  PlanPlace,
  PlanReport,
  Reuse,
} from "./graph/plan.ts";
export type { Elements } from "./graph/elements.ts";
export { leaf, Tensor, type TensorData } from "./graph/tensor.ts";
export type { Allocation } from "./runtime/allocation.ts";
export type { DeviceReport, MemoryReport } from "./runtime/arena.ts";
export type {
  Backend,
  Buffer,
  BufferType,
  BufferUse,
  Costs,
  DeviceUse,
  Executable,
  Planned,
  Staging,
  VerdictStore,
} from "./runtime/backend.ts";
export type { FuseOption, FusionName } from "./graph/fusion.ts";
export type { BackendInfo } from "./runtime/devices.ts";
export type { DeviceHandle } from "./runtime/options.ts";
export type { SplitCopy, SplitView } from "./runtime/scheduler/text.ts";
export {
  createEngine,
  type Engine,
  type EngineEvent,
  type EngineOptions,
  type Logger,
} from "./runtime/engine.ts";
export type { Reservation } from "./runtime/reservation.ts";
export type { Shape, Strides } from "./shape.ts";
export { Type, typeName } from "./types.ts";
