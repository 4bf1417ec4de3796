// The hash that ties saved caches to their model.
import { expect, test } from "vitest";
import { parseGguf, writeGguf } from "../ts/gguf/index.ts";
import { FINGERPRINT_BYTES, fingerprint } from "../ts/llm/fingerprint.ts";
import { Type } from "../ts/types.ts";
import { type Fake, metaMap } from "./meta.ts";

function of(
  meta: Record<string, Fake>,
  name = "w",
  ne: readonly number[] = [32, 2],
  type = Type.F32,
): string {
  const data = new Uint8Array(type === Type.F32 ? 256 : 128);
  const bytes = writeGguf(metaMap(meta), [{ name, type, ne, data }]);
  return Buffer.from(fingerprint(parseGguf(bytes))).toString("hex");
}

test("equal headers have equal fingerprints, any difference another", () => {
  const base: Record<string, Fake> = {
    "general.architecture": "llama",
    n: 7,
    x: { f32: 0.5 },
    list: ["ab", "c"],
    ids: Int32Array.of(1, 2),
  };
  const want = of(base);
  expect(want.length).toBe(2 * FINGERPRINT_BYTES);
  expect(of({ ...base })).toBe(want);
  const { n: _, ...fewer } = base;
  const others = [
    of({ ...base, n: 8 }),
    of(fewer),
    of({ ...base, more: true }),
    of({ ...base, x: { f32: 0.25 } }),
    of({ ...base, list: ["a", "bc"] }),
    of({ ...base, list: ["ab", "c", ""] }),
    of({ ...base, ids: Int32Array.of(2, 1) }),
    of({ ...base, ids: Float32Array.of(1, 2) }),
    of({ ...base, "general.architecture": "llamb" }),
    of(base, "v"),
    of(base, "w", [16, 4]),
    of(base, "w", [32, 2], Type.F16),
  ];
  expect(new Set([want, ...others]).size).toBe(1 + others.length);
});
