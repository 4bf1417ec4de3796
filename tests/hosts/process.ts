// Child processes with a time limit; nothing they start outlives the test.
import { type ChildProcess, spawn } from "node:child_process";

/** How a process ended. */
export interface Ended {
  /** exit status; null when a signal ended it */
  readonly code: number | null;
  /** true when it ran past its limit and was killed */
  readonly timedOut: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/** What {@link runCommand} takes beside the command line. */
export interface CommandOptions {
  readonly limitMs: number;
  readonly cwd?: string | undefined;
  /** changes to this process's environment; undefined takes a variable out */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
}

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) killGroup(child);
});

/** Runs a command in a process group of its own; the group is killed when it ends or when `limitMs` have passed. */
export async function runCommand(
  command: string,
  args: readonly string[],
  options: CommandOptions,
): Promise<Ended> {
  const { limitMs, cwd, env } = options;
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    killGroup(child);
  }, limitMs);
  try {
    const texts = Promise.all([textOf(child.stdout), textOf(child.stderr)]);
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on("error", reject);
      child.on("exit", resolve);
    });
    killGroup(child);
    const [stdout, stderr] = await texts;
    return { code, timedOut, stdout, stderr };
  } finally {
    clearTimeout(timer);
    running.delete(child);
  }
}

async function textOf(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString("utf8");
}

/** Kills all processes of a group that a child leads. */
export function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // the group has ended
  }
}
