// The script tag's `slackwater`: all of the package under one name.

export {
  ggufChunks,
  ggufHeader,
  GgufType,
  openGguf,
  openSource,
  parseGguf,
  readGguf,
  writeGguf,
} from "./gguf/index.ts";
export * from "./index.ts";
export * from "./llm/index.ts";
export { createPlanner } from "./plan.ts";
