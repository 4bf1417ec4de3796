// Prefix re-use, saving and quantised keys and values on tiny models of every architecture.
import { existsSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type KvType, type Model, type ModelContext } from "../ts/llm/index.ts";
import { Type } from "../ts/types.ts";
import { archDir, type CausalCase, caseNames, nmse, readCase } from "./arch/golden.ts";
import { start } from "./arch/run.ts";

const built = existsSync(archDir());
const causal = built ? caseNames().filter((name) => readCase(name).kind === "causal") : [];

async function logitsOf(
  on: Model | ModelContext,
  ids: readonly number[],
): Promise<{ rows: Float32Array[]; cached: number }> {
  const rows: Float32Array[] = [];
  const onLogits = (l: Float32Array): void => void rows.push(l.slice());
  const got = await on.complete(ids, { temperature: 0, maxTokens: 3, ignoreEos: true, onLogits });
  return { rows, cached: got.cachedTokens };
}

describe.skipIf(!built)("golden models", () => {
  test.for(causal)(
    "%s: a re-used prefix and a restored cache give the bits of a fresh context",
    async (name) => {
      const model = await start(name);
      const { prompt } = readCase(name) as CausalCase;
      const [head, other] = [prompt.slice(0, 25), prompt.slice(25).toReversed()];
      const changed = [...head, ...other];
      const want = await logitsOf(await model.createContext(), changed);
      expect(want.cached).toBe(0);
      await logitsOf(model, prompt);
      const reused = await logitsOf(model, changed);
      const same = changed.findIndex((id, i) => id !== prompt[i]);
      expect(reused.cached).toBe(same < 0 ? changed.length - 1 : same);
      expect(reused.rows).toEqual(want.rows);
      // The first tokens of a saved conversation, in a shorter context.
      const saved = await model.context.save();
      const restored = await model.createContext({ nCtx: 64, nBatch: 9 });
      await restored.restore(saved);
      const again = await logitsOf(restored, changed);
      expect(again.cached).toBe(changed.length - 1);
      // Longrope chooses its factors by the context's length: there the two differ by more than rounding.
      if (!name.includes("longrope")) expect(again.rows).toEqual(want.rows);
      model.dispose();
    },
  );

  test("longrope: a cache does not pass from short contexts to long ones", async () => {
    const model = await start("phi3-shortrope");
    await logitsOf(model, [1, 5, 9]);
    const saved = await model.context.save();
    // Trained for 4096 positions.
    const long = await model.createContext({ nCtx: 4097 });
    await expect(long.restore(saved)).rejects.toMatchObject({ code: "shape-mismatch" });
    await (await model.createContext({ nCtx: 4096 })).restore(saved);
    return model.dispose();
  });

  test.for(causal)("%s: keys and values in Q8_0 change little, or their heads are refused", async (name) => {
    const open8 = (kvType: KvType): Promise<Model> => start(name, { kvType });
    const exact = await open8(Type.F32);
    const { prompt } = readCase(name) as CausalCase;
    const want = await logitsOf(exact, prompt);
    const whole = [exact.params.headDimK, exact.params.headDimV].every((d) => d % 32 === 0);
    exact.dispose();
    if (!whole) return expect(open8(Type.Q8_0)).rejects.toMatchObject({ code: "bad-param" });
    const model = await open8(Type.Q8_0);
    const got = await logitsOf(model, prompt);
    model.dispose();
    expect(nmse([[...got.rows[0]!]], [[...want.rows[0]!]])).toBeLessThan(2e-3);
    return undefined;
  });
});
