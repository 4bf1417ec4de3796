// Entry on Node, Deno and Bun: takes the task as JSON in the last argument, prints the result as one line.
import { readFileSync } from "node:fs";
import { runTask } from "./program.mjs";

async function main() {
  const { files, ...task } = JSON.parse(process.argv.at(-1));
  const open = (name, source) =>
    source === "path" ? files[name] : new Uint8Array(readFileSync(files[name])).buffer;
  console.log(JSON.stringify(await runTask(task, open)));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
