// A page with nothing but script tags: loads a model, tells a story, answers a chat, plans; logs the outcome as a line.
/* global slackwater, modelText */
"use strict";

/** A folder's page has its model in a script, a server's fetches it. */
function modelSource() {
  if (typeof modelText === "undefined") return new URL("model.gguf", location.href);
  return new Blob([Uint8Array.from(atob(modelText), (c) => c.charCodeAt(0))]);
}

async function tell() {
  const query = new URLSearchParams(location.search);
  const notices = [];
  const workerUrl = query.get("workerUrl") ?? undefined;
  const model = await slackwater.loadModel(modelSource(), {
    nThreads: 2,
    chatTemplate: "chatml",
    logger: { warn: (text) => notices.push(text) },
    workerUrl,
  });
  const { text } = await model.complete("Once upon a time", { maxTokens: 24, temperature: 0 });
  const messages = [{ role: "user", content: "Tell me of a dog." }];
  const answer = await model.chat.completions.create({ messages, max_tokens: 12, temperature: 0 });
  const { nThreads } = model.engine;
  model.dispose();
  return { text, chat: answer.choices[0].message.content, nThreads, notices };
}

/** A graph and a plan, by the same global. */
async function reckon() {
  const engine = await slackwater.createEngine({ nThreads: 1 });
  const g = engine.graph();
  const x = g.input("x", slackwater.Type.F32, [3]);
  const y = g.add(x, x).asOutput("y");
  g.plan();
  x.write(Float32Array.of(1, 2, 3));
  await g.compute();
  const sums = Array.from(await y.read());
  engine.dispose();
  const planner = await slackwater.createPlanner();
  const { peak } = planner.planBuffers([
    { lower: 0, upper: 2, size: 64 },
    { lower: 2, upper: 3, size: 64 },
  ]);
  return { sums, peak, formatErrors: typeof slackwater.FormatError };
}

Promise.all([tell(), reckon()])
  .then(([told, reckoned]) => ({ ...told, ...reckoned }))
  .catch((error) => ({ error: `${error.name} ${error.code}: ${error.message}` }))
  .then((outcome) => console.log(`outcome ${JSON.stringify(outcome)}`));
