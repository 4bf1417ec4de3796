// Plans lists on whatever host runs it: the task comes in the last argument or, in a page, from the server.
import { createPlanner } from "../../dist/plan.js";

const inPage = typeof document !== "undefined";
const task = inPage ? await (await fetch("task.json")).json() : JSON.parse(process.argv.at(-1));
const planner = await createPlanner();
const plans = task.map(({ list, options }) => {
  const { offsets, chunkOf, peak, lowerBound, optimal, work } = planner.planBuffers(list, options);
  return { offsets: [...offsets], chunkOf: [...chunkOf], peak, lowerBound, optimal, work };
});
console.log((inPage ? "result " : "") + JSON.stringify(plans));
