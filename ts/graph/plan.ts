// What a user sees of a memory plan.

/** Options of a plan. */
export interface PlanOrder {
  /** "memory": independent nodes may run in another order that keeps fewer bytes alive; "graph" (default): as built */
  readonly order?: "graph" | "memory" | undefined;
}

/** Figures of the part of a plan that one backend has, bytes. */
export interface BackendPlan {
  readonly name: string;
  readonly nBytes: number;
  /** its buffers: one, or as many as it takes where the backend's largest is too small; they add up to `nBytes` */
  readonly chunks: readonly number[];
  readonly lowerBound: number;
  /** without any re-use */
  readonly sum: number;
  /** most scratch of one step */
  readonly scratch: number;
}

/** A memory plan as the user sees it. */
export interface Plan {
  /** bytes of the compute buffers of all backends, scratch included */
  readonly nBytes: number;
  /** no placement can need fewer bytes, given the lifetimes */
  readonly lowerBound: number;
  /** the same for each backend that runs part of the graph */
  readonly backends: readonly BackendPlan[];
  /** what sets the peak, who fills it, who re-uses whose memory, what re-use saves */
  report(): PlanReport;
  /** the report for a terminal */
  toText(): string;
  /** report and lifetimes as plain data */
  toJSON(): object;
  /** picture of the plan: x = step, y = offset */
  toSVG(): string;
}

/** One of several buffers that a report lays end to end. */
export interface PlanBuffer {
  readonly name: string;
  /** where it begins */
  readonly from: number;
  readonly nBytes: number;
}

/** Where something lies in one of several buffers. */
export interface PlanPlace {
  readonly buffer: string;
  readonly offset: number;
}

/** An entry at the peak step and its share of the peak. */
export interface Consumer {
  readonly name: string;
  readonly size: number;
  readonly offset: number;
  /** the same in its buffer, when there are several */
  readonly within?: PlanPlace;
  readonly lower: number;
  readonly upper: number;
  readonly scratch: boolean;
}

/** `name` lies where `previous` lay before. */
export interface Reuse {
  readonly name: string;
  readonly size: number;
  readonly previous: readonly string[];
}

/**
 * The step that sets the peak: of those whose tensors reach it, the one with most bytes alive. With several buffers it
 * reaches the end of any of them.
 */
export interface PeakStep {
  readonly step: number;
  readonly name: string;
  /** bytes alive in it, scratch included */
  readonly alive: number;
  readonly scratch: number;
}

/** Figures of a plan, in bytes and steps. */
export interface PlanReport {
  readonly title: string;
  readonly peak: number;
  readonly lowerBound: number;
  readonly sum: number;
  readonly ms: number;
  readonly optimal: boolean;
  /** of graphs: figures per backend */
  readonly backends?: readonly BackendPlan[];
  /** when there are several: offsets count on through them */
  readonly buffers?: readonly PlanBuffer[];
  /** in the order of the entries */
  readonly offsets: readonly number[];
  readonly nEntries: number;
  readonly nSteps: number;
  /** bytes that re-use saves: sum - peak, never below 0 */
  readonly saved: number;
  readonly peakStep: PeakStep;
  /** most scratch of one step */
  readonly scratch: number;
  /** largest first */
  readonly consumers: readonly Consumer[];
  /** largest first */
  readonly reuse: readonly Reuse[];
}
