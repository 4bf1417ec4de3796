// Entry on Node, Deno and Bun: takes the task as JSON in the last argument, prints the rows as one line.
import { readFileSync } from "node:fs";
import { generateAll } from "./program.mjs";

async function main() {
  const task = JSON.parse(process.argv.at(-1));
  const models = task.models.map(({ name, source, path }) => ({
    name,
    source,
    open: () => (source === "path" ? path : new Uint8Array(readFileSync(path)).buffer),
  }));
  console.log(JSON.stringify(await generateAll(models, task)));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
