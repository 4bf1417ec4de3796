#!/usr/bin/env node
// Entry point of the command.

import { main } from "./main.ts";
import { complain } from "./progress.ts";

// A reader that has seen enough (head, a pager) closes the pipe: nothing is left to do. Other faults of the output end
// the command too, in one line.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  complain(`output: ${error.message}`);
  process.exit(1);
});

void main(process.argv.slice(2)).then((status) => {
  process.exitCode = status;
});
