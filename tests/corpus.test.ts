// The corpus runner itself: it sees what differs from the manifest.
import { describe, expect, it } from "vitest";
import { FormatError } from "../ts/errors.ts";
import { GgufType, StringArray, parseGguf, writeGguf } from "../ts/gguf/index.ts";
import { Type } from "../ts/types.ts";
import { NotBuilt, runArch } from "./corpus/arch.ts";
import { judgeAccept, judgeError, judgeFile, sameValue } from "./corpus/judge.ts";
import { type Expect, nameOf, readManifest } from "./corpus/manifest.ts";
import { describeWith } from "./data.ts";

describe("the corpus runner", () => {
  const error = new FormatError("bad-type", "no", { offset: 4 });

  it("tells the expected rejection from others", () => {
    expect(judgeError({ action: "reject", error: "bad-type" }, error)).toBeUndefined();
    expect(judgeError({ action: "reject", error: "any" }, error)).toBeUndefined();
    expect(judgeError({ action: "no-crash" }, error)).toBeUndefined();
    expect(
      judgeError({ action: "accept", any: [{ action: "reject", error: "bad-type" }] }, error),
    ).toBeUndefined();
    expect(judgeError({ action: "reject", error: "limit" }, error)).toContain("bad-type");
    expect(judgeError({ action: "accept" }, error)).toContain("bad-type");
    expect(judgeError({ action: "reject", error: "any" }, new RangeError("deep"))).toContain("RangeError");
    expect(judgeError({ action: "reject", error: "any" }, new FormatError("limit", "x"))).toContain(
      "no byte position",
    );
  });

  it("tells an expected acceptance from others", () => {
    expect(judgeAccept({ action: "accept" })).toBeUndefined();
    expect(judgeAccept({ action: "reject", error: "limit", any: [{ action: "accept" }] })).toBeUndefined();
    expect(judgeAccept({ action: "reject", error: "limit" })).toBe("accepted");
  });

  it("compares values exactly", () => {
    const { FLOAT32, UINT64, BOOL, STRING, ARRAY } = GgufType;
    expect(sameValue(0.1, { type: FLOAT32, value: Math.fround(0.1) })).toBe(true);
    expect(sameValue("-0", { type: FLOAT32, value: 0 })).toBe(false);
    expect(sameValue("NaN", { type: FLOAT32, value: NaN })).toBe(true);
    expect(sameValue("9007199254740993", { type: UINT64, value: 2n ** 53n })).toBe(false);
    expect(sameValue(1, { type: BOOL, value: true })).toBe(true);
    expect(sameValue(1, { type: STRING, value: "1" })).toBe(false);
    const list = { type: ARRAY, elementType: STRING, value: StringArray.from(["a"]) };
    expect([sameValue(["a"], list), sameValue(["b"], list), sameValue(["a", "b"], list)]).toEqual([
      true,
      false,
      false,
    ]);
  });

  it("sees other contents", async () => {
    const tensors = [
      { name: "w", type: Type.F32, ne: [2], data: new Uint8Array(Float32Array.of(1, -2).buffer) },
    ];
    const bytes = writeGguf([["k", { type: GgufType.UINT32, value: 7 }]], tensors);
    const file = parseGguf(bytes);
    const judge = (expected: Omit<Expect, "action">): Promise<string | undefined> =>
      judgeFile({ action: "accept", ...expected }, file, (t) =>
        Promise.resolve(bytes.subarray(t.offset, t.offset + t.nBytes)),
      );
    const w = { name: "w", ne: [2], type: "F32", nbytes: 8 };
    expect(
      await judge({ n_kv: 1, n_tensors: 1, kv: { k: 7 }, tensors: [w], f32: { w: [1, -2] } }),
    ).toBeUndefined();
    const wrong: Omit<Expect, "action">[] = [
      { n_kv: 2 }, { n_tensors: 0 }, { kv: { k: 8 } }, { kv: { l: 7 } }, { kv: {} }, { tensors: [] },
      { tensors: [{ ...w, nbytes: 4 }] }, { tensors: [{ ...w, sha256: "00" }] }, { f32: { w: [1, 2] } }, { f32: { v: [] } },
    ]; // prettier-ignore
    for (const expected of wrong)
      expect(await judge(expected), JSON.stringify(expected)).toBeTypeOf("string");
  });
});

describeWith("corpus", "the model corpus", () => {
  it("counts a stage as not built, passed or failed", async () => {
    const entry = readManifest("arch").find((e) => e.expect.error === "missing-tensor")!;
    const load = (error: Error) => ({
      load: async () => {
        throw error;
      },
    });
    expect(nameOf(entry)).toContain("arch/");
    expect(await runArch(entry, {})).toBeNull();
    expect(await runArch(entry, load(new NotBuilt("later")))).toBeNull();
    expect(
      await runArch(entry, load(new FormatError("missing-tensor", "w", { tensor: "w" }))),
    ).toBeUndefined();
    expect(await runArch(entry, load(new FormatError("limit", "w")))).toContain("limit");
    expect(await runArch(entry, { load: () => Promise.resolve() })).toBe("accepted");
  });
});
