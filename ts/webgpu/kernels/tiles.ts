// REPEAT CONCAT PAD PAD_REFLECT_1D ROLL: elements taken from other places of the sources, bits as they are.

import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { type Dispatch, type GpuKernel, i32, u32 } from "../kernel.ts";
import { address, eachElement, repeated } from "../wgsl/elements.ts";
import { moveUnit, type Units, unitParams, unitsOf } from "../wgsl/move.ts";
import { isReadable } from "../wgsl/quants.ts";

const SOURCE = ["u32(j0)", "u32(j1)", "u32(j2)", "u32(j3)"];

function kernel(dispatch: (node: ProgramNode, to: Units, from: Units) => Dispatch): GpuKernel {
  return {
    supports: ({ tensor, src }) => [tensor, ...src].every((x) => x === undefined || isReadable(x)),
    dispatches: (node) => [dispatch(node, unitsOf(node.tensor), unitsOf(node.src[0]!))],
  };
}

interface Part {
  readonly name: string;
  readonly to: Units;
  readonly from: Units;
  readonly params?: Dispatch["params"];
  readonly functions?: string;
  readonly body: string;
}

function moved(node: ProgramNode, { name, to, from, params = [], functions = "", body }: Part): Dispatch {
  return eachElement(node, {
    label: `${name} ${to.size}`,
    bind: [
      { name: "dst", of: "dst", access: "write", atomic: to.size < 4 },
      { name: "a", of: 0, access: "read" },
    ],
    params: [...unitParams("dst", to), ...unitParams("a", from), ...params],
    functions,
    body,
    ne: to.ne,
  });
}

/** src0 tiled over the shape of the result. */
export const repeatKernel: GpuKernel = kernel((node, to, from) =>
  moved(node, { name: "repeat", to, from, body: moveUnit(to.size, address("dst"), "a", repeated("a")) }),
);

/** Dimension in slot 0. */
export const concatKernel: GpuKernel = kernel((node, to, from) => {
  const dim = node.tensor.params[0]!;
  const second = unitsOf(node.src[1]!);
  return eachElement(node, {
    label: `concat ${to.size} ${dim}`,
    bind: [
      { name: "dst", of: "dst", access: "write", atomic: to.size < 4 },
      { name: "a", of: 0, access: "read" },
      { name: "b", of: 1, access: "read" },
    ],
    params: [...unitParams("dst", to), ...unitParams("a", from), ...unitParams("b", second)],
    body: `
  var j = vec4u(i0, i1, i2, i3);
  let to = ${address("dst")};
  if (j[${dim}] < P.a_ne${dim}) {
    ${moveUnit(to.size, "to", "a", address("a"))}
    return;
  }
  j[${dim}] -= P.a_ne${dim};
  ${moveUnit(to.size, "to", "b", address("b", ["j[0]", "j[1]", "j[2]", "j[3]"]))}`,
    ne: to.ne,
  });
});

const zero = (size: number): string => `dst_set_${size === 4 ? "u32" : "u16"}(${address("dst")}, 0u);`;

// An index in [0, n) of one that is outside by at most n.
const AROUND = `
fn around(i: i32, n: u32) -> i32 {
  let m = i32(n);
  if (i < 0) { return i + m; }
  if (i >= m) { return i - m; }
  return i;
}
`;

function fronts(slots: readonly number[]): Dispatch["params"] {
  return slots.map((s, i) => i32(`p${i}`, s));
}

/** Elements in front and behind in slots 2 i and 2 i + 1, circular in slot 8. */
export const padKernel: GpuKernel = kernel((node, to, from) => {
  const { params } = node.tensor;
  const circular = params[8] !== 0;
  const shifted = [0, 1, 2, 3].map((d) => `i32(i${d}) - P.p${d}`);
  const outside = [0, 1, 2, 3].map((d) => `j${d} < 0 || j${d} >= i32(P.a_ne${d})`).join(" || ");
  return moved(node, {
    name: circular ? "pad around" : "pad",
    to,
    from,
    params: fronts([0, 2, 4, 6].map((i) => params[i]!)),
    functions: circular ? AROUND : "",
    body: `
  ${shifted.map((j, d) => `let j${d} = ${circular ? `around(${j}, P.a_ne${d})` : j};`).join(" ")}
  ${circular ? "" : `if (${outside}) { ${zero(to.size)} return; }`}
  ${moveUnit(to.size, address("dst"), "a", address("a", SOURCE))}`,
  });
});

/** Places towards higher indices, per dimension. */
export const rollKernel: GpuKernel = kernel((node, to, from) =>
  moved(node, {
    name: "roll",
    to,
    from,
    params: fronts([0, 1, 2, 3].map((i) => node.tensor.params[i]!)),
    functions: AROUND,
    body: `
  ${[0, 1, 2, 3].map((d) => `let j${d} = around(i32(i${d}) - P.p${d}, P.a_ne${d});`).join(" ")}
  ${moveUnit(to.size, address("dst"), "a", address("a", SOURCE))}`,
  }),
);

/** Elements in front in slot 0; the elements at the ends are not repeated. */
export const padReflect1dKernel: GpuKernel = kernel((node, to, from) =>
  moved(node, {
    name: "pad_reflect_1d",
    to,
    from,
    params: fronts([node.tensor.params[0]!]),
    body: `
  var j0 = abs(i32(i0) - P.p0);
  if (j0 >= i32(P.a_ne0)) { j0 = 2 * (i32(P.a_ne0) - 1) - j0; }
  let j1 = i1; let j2 = i2; let j3 = i3;
  ${moveUnit(to.size, address("dst"), "a", address("a", SOURCE))}`,
  }),
);

/** What ACC and SET do first: src0 as it is into the result. */
export function copied(node: ProgramNode, a: Tensor): Dispatch {
  const [to, from] = [unitsOf(node.tensor), unitsOf(a)];
  return moved(node, {
    name: "take",
    to,
    from,
    params: [u32("unused", 0)],
    body: moveUnit(to.size, address("dst"), "a", address("a")),
  });
}
