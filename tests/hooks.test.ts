// What the options of a call to another thread may hold beside data.
import { expect, test } from "vitest";
import { GraphError } from "../ts/errors.ts";
import { takeHooks } from "../ts/llm/remote/hooks.ts";

test("a signal of another realm is heard, and what is no signal is refused", () => {
  const own = new AbortController().signal;
  const foreign = { aborted: true, addEventListener: () => undefined, removeEventListener: () => undefined };
  expect(takeHooks("complete", ["text", { signal: own }]).signal).toBe(own);
  const taken = takeHooks("complete", ["text", { signal: foreign }]);
  expect([taken.signal, taken.hooks?.signal]).toEqual([foreign, "aborted"]);
  for (const signal of [{}, "soon", 5, { aborted: false }]) {
    expect(() => takeHooks("complete", ["text", { signal }])).toThrow(GraphError);
  }
  for (const signal of [undefined, null]) {
    expect(takeHooks("complete", ["text", { signal }]).hooks?.signal).toBe("none");
  }
});
