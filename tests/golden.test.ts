// The golden vectors, as `npm run conformance` runs them.
import { expect, test } from "vitest";
import { createEngine } from "../ts/runtime/engine.ts";
import { describeWith } from "./data.ts";
import { goldenCases } from "./golden/file.ts";
import { runCase } from "./golden/run.ts";

describeWith("golden", "golden vectors", () => {
  test.each([1, 2])(
    "with %i thread(s), what is built agrees with ggml and at least 150 cases are",
    async (nThreads) => {
      const engine = await createEngine({ nThreads });
      await engine.arrived;
      const failures: string[] = [];
      let passed = 0;
      for (const c of goldenCases()) {
        const outcome = await runCase(engine, c);
        if (outcome.kind === "passed") passed++;
        if (outcome.kind === "failed") failures.push(`${c.name}: ${outcome.reason}`);
      }
      engine.dispose();
      expect(failures).toEqual([]);
      expect(passed).toBeGreaterThanOrEqual(150);
    },
  );
});
