// Scratch of products: no kernel writes beyond what is counted for it, for the fewest weights and columns and for more of both.
import { expect, test } from "vitest";
import { CTRL_VECTORS, CTRL_WIDE, Flag, Op } from "../assembly/abi.ts";
import { dotType, mulMatDef, WEIGHTS } from "../ts/ops/mul_mat.ts";
import { mulMatIdDef } from "../ts/ops/mul_mat_id.ts";
import { rowBytes } from "../ts/shape.ts";
import { isQuantized, Type, typeInfo } from "../ts/types.ts";
import { BUILDS, Core, type Stored, samples, stream, weights } from "./core.ts";

/** What probeDot() may have found; which it is decides how columns lie. */
const DOTS = [0, 1, 2];
/** Row by row; panels, of four and six columns; odd numbers with wider registers. */
const COLUMNS = [1, 2, 3, 4, 5, 13, 23, 66];
const ROWS = 16;

function laid(core: Core, type: Type, k: number, quads: boolean): Stored {
  const a = core.leaf(type, [k, ROWS], weights(core, type, k * ROWS, stream(k)));
  if (quads && core.toQuads(type, a.data, rowBytes(type, k), ROWS)) core.setFlags(a, Flag.QUADS);
  return a;
}

function columns(core: Core, type: Type, k: number, n: number): Stored[] {
  const wanted = isQuantized(type) ? [dotType(type)] : type === Type.F32 ? [type] : [Type.F32, type];
  return wanted.map((t) => core.leaf(t, [k, n], core.quantize(t, samples(k * n, stream(n)))));
}

// Core.compute() looks at what is beside the scratch.
function productStays(core: Core, a: Stored, b: Stored): void {
  const { ne } = mulMatDef.infer([a, b]);
  const scratch = mulMatDef.scratch!({ type: Type.F32, ne, nb: [4, 0, 0, 0] }, [a, b], 1);
  const y = core.compute({ op: Op.MUL_MAT, src: [a, b], scratch }, Type.F32, ne);
  expect(core.read(y).every(Number.isFinite)).toBe(true);
}

// One token, all of whose columns go to the one matrix.
function chosenStays(core: Core, a: Stored, b: Stored): void {
  const ids = core.leaf(Type.I32, [b.ne[1]], new Int32Array(b.ne[1]));
  const { ne } = mulMatIdDef.infer([a, b, ids]);
  const scratch = mulMatIdDef.scratch!({ type: Type.F32, ne, nb: [4, 0, 0, 0] }, [a, b, ids], 1);
  const y = core.compute({ op: Op.MUL_MAT_ID, src: [a, b, ids], scratch }, Type.F32, ne);
  expect(core.read(y).every(Number.isFinite)).toBe(true);
}

test.each(BUILDS)("products stay in their scratch, %s", async (build) => {
  const core = await Core.load(build);
  for (const dot of build === "relaxed" ? DOTS : [0]) {
    for (const type of WEIGHTS) {
      const { blockSize } = typeInfo(type)!;
      for (const k of blockSize === 1 ? [1, 3, 7, 8, 9, 65, 240, 513] : [1, 2, 9].map((n) => n * blockSize)) {
        for (const quads of blockSize === 1 ? [false] : [false, true]) {
          for (const n of COLUMNS) {
            core.reset();
            core.bytes[CTRL_WIDE] = dot;
            core.bytes[CTRL_VECTORS] = n % 2;
            const a = laid(core, type, k, quads);
            for (const b of columns(core, type, k, n)) {
              productStays(core, a, b);
              chosenStays(core, a, b);
            }
          }
        }
      }
    }
  }
});
