// The command line: finds the command, prints errors, sets the exit status.

import { benchCommand } from "./bench.ts";
import { chatCommand } from "./chat.ts";
import { embedCommand } from "./embed.ts";
import { evalCommand } from "./eval.ts";
import { inspectCommand } from "./inspect.ts";
import { planCommand } from "./plan.ts";
import { planHost } from "./plan_model.ts";
import { complain } from "./progress.ts";
import { quantizeCommand } from "./quantize.ts";
import { runCommand } from "./run.ts";
import { packageVersion } from "./version.ts";

/** A command: takes its arguments, prints to standard output. */
export type Command = (args: readonly string[]) => Promise<void>;

const COMMANDS: ReadonlyMap<string, Command> = new Map([
  ["run", runCommand],
  ["chat", chatCommand],
  ["eval", evalCommand],
  ["embed", embedCommand],
  ["inspect", inspectCommand],
  ["plan", plan],
  ["bench", benchCommand],
  ["quantize", quantizeCommand],
]);

const HELP = `slackwater: runs GGUF models in a wasm arena whose memory does not move

  slackwater run [MODEL] [-p PROMPT] [-n TOKENS] [--temp T] ...   tell a story; without MODEL: the one in the package
  slackwater chat MODEL [--system TEXT] [-m MESSAGES.json]        a conversation, or one answer
  slackwater eval MODEL --text-file FILE                         mean negative log-likelihood of a text
  slackwater embed MODEL [--file FILE]                           vectors of texts, JSON lines in and out
  slackwater inspect MODEL                                       header and exact memory plan, nothing loaded
  slackwater plan MODEL|CSV [--svg FILE]                         memory plan of a model's graph, or of a list of buffers
  slackwater bench [MODEL] [--pp N] [--tg N] [--reps R]          prompt and generation rates
  slackwater quantize IN.gguf OUT.gguf TYPE                      the model in another type

Each command takes --json (one JSON object as the last line) and --help. slackwater --version prints the version.`;

/** Runs the command line. Returns the exit status: 0, 1 for an error, 2 for a wrong call. */
export async function main(argv: readonly string[]): Promise<number> {
  const [name, ...args] = argv;
  if (name === undefined || name === "help" || name === "--help" || name === "-h") {
    console.log(HELP);
    return name === undefined ? 2 : 0;
  }
  if (name === "--version" || name === "-v") {
    console.log(packageVersion());
    return 0;
  }
  const command = COMMANDS.get(name);
  if (command === undefined) {
    console.error(`slackwater: no command "${name}"\n\n${HELP}`);
    return 2;
  }
  try {
    await command(args);
    return 0;
  } catch (error) {
    return report(error, args.includes("--json"));
  }
}

async function plan(args: readonly string[]): Promise<void> {
  using host = planHost();
  await planCommand(args, host);
}

function report(error: unknown, json: boolean): number {
  const { name, message, code } = error as { name?: string; message?: string; code?: string };
  const wrongCall = error instanceof TypeError;
  const text = message ?? String(error);
  const prefix = code === undefined || wrongCall || text.startsWith(code) ? "" : `${code}: `;
  complain(`${prefix}${text}`);
  if (json) console.log(JSON.stringify({ error: { name, code, message } }));
  return wrongCall ? 2 : 1;
}
