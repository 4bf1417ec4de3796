// Entry in a page and in a dedicated worker: runs the task of the page's address, logs the result as one line.
import { runTask } from "./program.mjs";

const PREFIX = "result ";

/** What the address asks for; the rest of the task comes from the server. */
async function run() {
  const query = new URLSearchParams(location.search);
  const task = await (await fetch("task.json")).json();
  const workerUrl = query.has("workerUrl") ? new URL(query.get("workerUrl"), location.href) : undefined;
  return runTask({ ...task, nThreads: Number(query.get("nThreads")), workerUrl }, open);
}

async function open(name, source) {
  const url = new URL(`models/${name}.gguf`, location.href);
  if (source === "url") return url;
  const response = await fetch(url);
  return source === "blob" ? response.blob() : response.arrayBuffer();
}

/** Runs the task in a worker made from this same script. */
function runInWorker() {
  return new Promise((resolve, reject) => {
    const worker = new Worker(`page.js${location.search}`, { type: "module" });
    worker.addEventListener("message", ({ data }) => resolve(data));
    worker.addEventListener("error", (e) => reject(new Error(`worker: ${e.message}`)));
  });
}

const inWorker = typeof document === "undefined";
const result = (inWorker || !location.search.includes("in=worker") ? run() : runInWorker()).catch(
  (error) => ({
    error: `${error.name} ${error.code}: ${error.message}\n${error.stack}`,
  }),
);
void result.then((all) => (inWorker ? postMessage(all) : console.log(PREFIX + JSON.stringify(all))));
