// Entry point of the worker bundle.

import { main } from "./worker.ts";

main();
