// The command in a pipe: readers that leave early, outputs that are full. Needs dist/.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const CLI = fileURLToPath(new URL("../dist/cli.js", import.meta.url));

function shell(line: string): Promise<{ status: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const script = `set -o pipefail; ${line.replaceAll("slackwater", `"${process.execPath}" "${CLI}"`)}`;
    execFile("bash", ["-c", script], { timeout: 60_000 }, (error, stdout, stderr) =>
      resolve({ status: typeof error?.code === "number" ? error.code : 0, stdout, stderr }),
    );
  });
}

test.runIf(existsSync("/bin/bash"))("a reader that leaves early ends the command quietly", async () => {
  // The first may have written all of its text before the reader goes, the second finds it gone.
  const twice =
    "slackwater run -n 300 --temp 0 2> /dev/null && until [ -e $gone ]; do sleep 0.01; done && slackwater run -n 300 --temp 0";
  const line = `gone=$(mktemp -u); { ${twice}; } | { head -c 4; exec <&-; touch $gone; }; s=$?; rm -f $gone; exit $s`;
  const { status, stdout, stderr } = await shell(line);
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "Once", stderr: "" });
});

test.runIf(existsSync("/dev/full"))("an output that is full is an error in one line", async () => {
  const { status, stderr } = await shell("slackwater run -n 3 --temp 0 --json > /dev/full");
  expect(status).toBe(1);
  expect(stderr).toMatch(/^slackwater: output: ENOSPC.*\n$/);
});

test("an error of the system is told once, with its code", async () => {
  const { status, stderr } = await shell("slackwater eval --text-file / x");
  expect(status).toBe(1);
  expect(stderr.match(/EISDIR/g)).toHaveLength(1);
});
