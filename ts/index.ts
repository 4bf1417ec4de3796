// The public surface of the engine.

export { Flag, Glu, Op, Unary } from "../assembly/abi.ts";
export {
  type DeviceCode,
  DeviceError,
  type ErrorDetails,
  type FormatCode,
  FormatError,
  type GraphCode,
  GraphError,
} from "./errors.ts";
export type { FlashAttn, ViewPlace } from "./graph/builder.ts";
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
export type { Program, ProgramNode } from "./graph/program.ts";
export { leaf, type Memory, type Placement, Tensor, type TensorData } from "./graph/tensor.ts";
export type {
  ConvParams,
  GluParams,
  Im2colParams,
  PadParams,
  PatchParams,
  Pool,
  Pool1dParams,
  Pool2dParams,
  RopeParams,
  ScaleMode,
  SoftMaxParams,
  Triangle,
  TriParams,
  UpscaleParams,
} from "./ops/defs.ts";
export type { Allocation, DeviceBytes } from "./runtime/allocation.ts";
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
export type { CoreBuild } from "./runtime/cores.ts";
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
export type { GraphMemory } from "./runtime/graph_host.ts";
export type { GraphPlanView } from "./runtime/plan_view.ts";
export type { Reservation } from "./runtime/reservation.ts";
export type { VectorBits } from "./runtime/vectors.ts";
export type { WasmOption } from "./runtime/wasm.ts";
export type { Shape, Strides } from "./shape.ts";
export { Type, typeName } from "./types.ts";
