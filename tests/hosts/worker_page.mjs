// Entry in a page: plays what its address asks for with models in workers, logs the outcome as one line.
import * as core from "../../dist/index.js";
import * as llm from "../../dist/llm.js";
import { playAll } from "./worker_scenes.mjs";

const lib = { ...core, ...llm };
const query = new URLSearchParams(location.search);
const MODEL = "model.gguf";
const GREEDY = { temperature: 0, maxTokens: 12 };
const PROMPT = "Once upon a time";

/** Workers that the page itself made, and wasm that it compiled. */
const seen = { workers: [], compiled: 0 };

globalThis.Worker = class extends Worker {
  constructor(...args) {
    super(...args);
    seen.workers.push(this);
  }
};
const { compile } = WebAssembly;
WebAssembly.compile = (bytes) => {
  seen.compiled++;
  return compile.call(WebAssembly, bytes);
};

const load = (options = {}, input = new URL(MODEL, location.href)) =>
  lib.loadModel(input, { nThreads: 1, chatTemplate: "chatml", ...options });

async function telling(model) {
  const { text } = await model.complete(PROMPT, GREEDY);
  model.dispose();
  return text;
}

/** Every kind of source. */
async function sources() {
  const bytes = await (await fetch(MODEL)).arrayBuffer();
  const around = new Uint8Array(bytes.byteLength + 20);
  around.set(new Uint8Array(bytes), 10);
  const file = new File([bytes], "model.gguf");
  const texts = {};
  for (const [name, input] of Object.entries({
    path: MODEL,
    url: new URL(MODEL, location.href),
    blobUrl: URL.createObjectURL(file),
    file,
    handle: { getFile: async () => file },
    bytes,
    view: around.subarray(10, 10 + bytes.byteLength),
  })) {
    texts[name] = await telling(await load({}, input));
  }
  return { texts, bytesKept: bytes.byteLength > 0 && around.byteLength > 0, ...counted() };
}

/** What becomes of a model whose worker is ended by somebody else. */
async function terminated() {
  const model = await load();
  const code = (error) => `${error.name} ${error.code}`;
  const run = model.complete(PROMPT, { maxTokens: 400, ignoreEos: true }).catch(code);
  await model.complete(PROMPT, { maxTokens: 1 }).catch(code);
  seen.workers.at(-1).terminate();
  const outcome = [await run, await model.embed(["a"]).catch(code)];
  model.dispose();
  return outcome;
}

/** Where the model runs, by option. */
async function places() {
  const own = new Worker("own.js");
  const texts = [await telling(await load({ worker: own })), await telling(await load({ worker: false }))];
  const engine = await lib.createEngine({ nThreads: 1 });
  texts.push(await telling(await load({ engine })));
  engine.dispose();
  return { same: texts.every((text) => text === texts[0]), ...counted() };
}

/** A policy in the way. */
async function blocked() {
  const notices = [];
  const logger = { warn: (text) => notices.push(text) };
  const model = await load({ nThreads: 2, logger });
  const { nThreads } = model.engine;
  return { text: await telling(model), nThreads, notices, ...counted() };
}

function counted() {
  return { workers: seen.workers.length, compiled: seen.compiled };
}

async function scenes() {
  return { ...(await playAll(lib, load)), ...counted() };
}

const PLAYS = { scenes, sources, terminated, places, blocked };

PLAYS[query.get("play")]()
  .catch((error) => ({ error: `${error.name} ${error.code}: ${error.message}\n${error.stack}` }))
  .then((outcome) => console.log(`outcome ${JSON.stringify(outcome)}`));
