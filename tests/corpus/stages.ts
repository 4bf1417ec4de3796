// The stages of the model-level corpus that are built.
import type { Stages } from "./arch.ts";

export const stages: Stages = {};
