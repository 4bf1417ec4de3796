// How operands become bindings, and the WGSL around a kernel's body. Needs no GPU.
import { describe, expect, it } from "vitest";
import { bindOperands, type Bindings, type Place } from "../ts/webgpu/binding.ts";
import { ALIGN } from "../ts/webgpu/device.ts";
import { type Bind, type Dispatch, f32, i32, rowWindows, u32 } from "../ts/webgpu/kernel.ts";
import { moduleSource, packSlot, patternKey } from "../ts/webgpu/module.ts";
import { gridOf } from "../ts/webgpu/plan.ts";

function memoryOf(size: number): GPUBuffer {
  return { size } as GPUBuffer;
}

const BIND: readonly Bind[] = [
  { name: "dst", of: "dst", access: "write" },
  { name: "a", of: 0, access: "read" },
  { name: "b", of: 1, access: "read" },
];

function dispatchOf(bind: readonly Bind[] = BIND, body = ""): Dispatch {
  const params = [u32("n", 2 ** 32 - 1), i32("k", -2), f32("scale", 0.5)];
  return { label: "test", key: "test", source: () => body, bind, params, groups: 7, workgroup: 64 };
}

function bindAt(places: readonly Place[], limit: number, bind: readonly Bind[] = BIND): Bindings {
  return bindOperands(dispatchOf(bind), places, limit);
}

/** What WebGPU demands of the bindings of one dispatch. */
function expectLegal({ pattern, windows, starts }: Bindings, places: readonly Place[], limit: number): void {
  windows.forEach((w, i) => {
    expect(w.offset % 256).toBe(0);
    expect(w.size % 4).toBe(0);
    expect(w.size).toBeLessThanOrEqual(limit + 2 * ALIGN);
    expect(w.offset + w.size).toBeLessThanOrEqual(w.memory.size);
    for (const [j, v] of windows.entries()) {
      if (j === i || v.memory !== w.memory) continue;
      expect(pattern.bindings[j]!.writable).toBe(pattern.bindings[i]!.writable);
      const apart = v.offset >= w.offset + w.size || w.offset >= v.offset + v.size;
      if (pattern.bindings[i]!.writable) expect(apart).toBe(true);
    }
  });
  places.forEach((p, i) => {
    const w = windows[pattern.operands[i]!]!;
    expect(w.memory).toBe(p.memory);
    expect(w.offset + starts[i]!).toBe(p.start);
    expect(starts[i]! + p.bytes).toBeLessThanOrEqual(w.size);
  });
}

describe("operands of a dispatch", () => {
  const compute = memoryOf(4096);
  const weights = memoryOf(8192);
  const at = (memory: GPUBuffer, start: number, bytes: number): Place => ({ memory, start, bytes });

  it("share one binding for each buffer that fits, whatever lies where", () => {
    const patterns = [
      [at(compute, 0, 100), at(compute, 256, 100), at(weights, 512, 100)],
      [at(compute, 1024, 100), at(compute, 1024, 100), at(weights, 0, 8192)],
      [at(compute, 300, 8), at(compute, 298, 2), at(weights, 7, 1)],
    ].map((places) => {
      const bound = bindAt(places, 8192);
      expectLegal(bound, places, 8192);
      return patternKey(bound.pattern);
    });
    expect(new Set(patterns)).toEqual(new Set(["001 wr"]));
  });

  it("have windows of their own in larger buffers, writable together where one is written", () => {
    const places = [at(compute, 0, 100), at(compute, 256, 256), at(compute, 768, 300)];
    const bound = bindAt(places, 1024);
    expectLegal(bound, places, 1024);
    expect(patternKey(bound.pattern)).toBe("012 www");
    const read = [at(compute, 0, 100), at(weights, 256, 256), at(weights, 256, 300)];
    expectLegal(bindAt(read, 1024), read, 1024);
    expect(patternKey(bindAt(read, 1024).pattern)).toBe("012 wrr");
  });

  it("share the window where they overlap: in place, and views of one tensor", () => {
    const inPlace = [at(compute, 512, 300), at(compute, 512, 300), at(compute, 0, 40)];
    const bound = bindAt(inPlace, 1024);
    expectLegal(bound, inPlace, 1024);
    expect(patternKey(bound.pattern)).toBe("001 ww");
    const views = [at(compute, 0, 200), at(compute, 300, 300), at(compute, 500, 300)];
    expectLegal(bindAt(views, 1024), views, 1024);
    expect(patternKey(bindAt(views, 1024).pattern)).toBe("011 ww");
  });

  it("are atomic with everything in their binding", () => {
    const bind = [{ ...BIND[0]!, atomic: true }, ...BIND.slice(1)];
    const places = [at(compute, 0, 100), at(compute, 256, 100), at(weights, 512, 100)];
    expect(patternKey(bindAt(places, 8192, bind).pattern)).toBe("001 ar");
    expect(patternKey(bindAt(places, 1024, bind).pattern)).toBe("012 awr");
  });

  it("that overlap over more than a binding are refused", () => {
    const places = [at(weights, 0, 1000), at(weights, 900, 1000), at(weights, 1800, 1000)];
    expect(() => bindAt(places, 1024)).toThrow(expect.objectContaining({ code: "unsupported" }));
  });

  it("are legal for any places and any limit", () => {
    for (let seed = 0; seed < 300; seed++) {
      const at3 = [0, 1, 2].map((i) => (seed * (i * 37 + 11) * 193) % 3500);
      const memories = [compute, seed % 2 === 0 ? compute : weights, seed % 3 === 0 ? compute : weights];
      const places = at3.map((start, i) => at(memories[i]!, start, 1 + ((seed * 71 + i * 13) % 500)));
      for (const limit of [2048, 8192]) {
        try {
          expectLegal(bindAt(places, limit), places, limit);
        } catch (error) {
          expect(error).toMatchObject({ code: "unsupported" });
          expect(limit).toBe(2048);
        }
      }
    }
  });
});

describe("the module around a body", () => {
  it("holds the accessors that the body calls, and those that these call", () => {
    const body = "fn main(group: u32, local: u32) { dst_set_u16(2u * local, a_u16(0u) + u32(b_f16(2u))); }";
    const bind = [{ ...BIND[0]!, atomic: true }, ...BIND.slice(1)];
    const source = moduleSource(dispatchOf(bind, body), {
      operands: [0, 0, 1],
      bindings: [
        { writable: true, atomic: true },
        { writable: false, atomic: false },
      ],
    });
    const functions = [...source.matchAll(/\bfn (\w+)/g)].map((m) => m[1]);
    expect(functions).toEqual(["dst_set_part", "dst_set_u16", "a_u16", "b_u16", "b_f16", "main", "entry"]);
    expect(source).toContain("var<storage, read_write> M0: array<atomic<u32>>;");
    expect(source).toContain("var<storage, read> M1: array<u32>;");
  });

  it("packs groups, starts and parameters in the order of its struct", () => {
    const slot = new DataView(new ArrayBuffer(256));
    packSlot(dispatchOf(), [12, 256, 4], slot);
    const words = Array.from({ length: 6 }, (_, i) => slot.getUint32(4 * i, true));
    expect(words).toEqual([7, 12, 256, 4, 2 ** 32 - 1, 2 ** 32 - 2]);
    expect(slot.getFloat32(24, true)).toBe(0.5);
    const source = moduleSource(dispatchOf(), {
      operands: [0, 0, 0],
      bindings: [{ writable: true, atomic: false }],
    });
    const names = /struct Params \{([^}]*)\}/.exec(source)![1]!.matchAll(/(\w+):/g);
    expect([...names].map((m) => m[1])).toEqual(["groups_", "at_dst", "at_a", "at_b", "n", "k", "scale"]);
  });
});

describe("sizes", () => {
  it.each([1, 65535, 65536, 151936, 2 ** 31, 4_294_836_225 - 7])(
    "%i workgroups fit into two dimensions",
    (n) => {
      const [x, y] = gridOf(n);
      expect(Math.max(x, y)).toBeLessThanOrEqual(65535);
      expect(x * y).toBeGreaterThanOrEqual(n);
      expect(x * y - n).toBeLessThan(y);
    },
  );

  it("rows are cut into windows that cover them once", () => {
    for (const [rows, stride, bytes, max, step] of [
      [10, 100, 100, 1000, 1],
      [10, 100, 100, 999, 1],
      [11, 100, 36, 300, 2],
      [1, 5000, 5000, 5000, 1],
      [7, 128, 128, 128, 1],
    ] as const) {
      const windows = rowWindows(rows, stride, bytes, max, { offset: 64, step });
      expect(windows.flatMap((w) => Array.from({ length: w.last - w.first }, (_, i) => w.first + i))).toEqual(
        Array.from({ length: rows }, (_, i) => i),
      );
      for (const w of windows) {
        expect(w.bytes).toBeLessThanOrEqual(max);
        expect(w.offset).toBe(64 + w.first * stride);
        expect(w.first % step).toBe(0);
      }
    }
  });
});
