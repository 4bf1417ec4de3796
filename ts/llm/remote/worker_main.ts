// Entry of the bundled model worker.

import { serveModels } from "./server.ts";

serveModels();
