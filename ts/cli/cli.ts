#!/usr/bin/env node
// Entry point of the command.

import { main } from "./main.ts";

void main(process.argv.slice(2)).then((status) => {
  process.exitCode = status;
});
