// A worker of one's own for models: its whole script.
import { serveModels } from "../../dist/llm.js";

serveModels();
