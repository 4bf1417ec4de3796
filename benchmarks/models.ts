// Writes the synthetic models: `npm run models -- [--out DIR] [--shapes 135m,0.5b] [--types Q4_0]`.
import { parseArgs } from "node:util";
import { FILE_TYPES, SHAPES } from "./shapes.ts";
import { model, MODELS } from "./synthesize.ts";

const { values } = parseArgs({
  options: {
    out: { type: "string", default: MODELS },
    shapes: { type: "string", default: Object.keys(SHAPES).join() },
    types: { type: "string", default: Object.keys(FILE_TYPES).join() },
  },
});
for (const shape of values.shapes.split(",")) {
  for (const mix of values.types.split(",")) console.log(model(values.out, shape, mix));
}
