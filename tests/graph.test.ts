// Building graphs: expansion order, views, dumps, errors while building. Nothing is computed.
import { expect, test } from "vitest";
import { Flag, Op } from "../assembly/abi.ts";
import { fromBF16, fromF16, toBF16, toF16 } from "../ts/graph/elements.ts";
import { Graph, type GraphHost } from "../ts/graph/graph.ts";
import { checkProgram, expand } from "../ts/graph/program.ts";
import { leaf, Tensor } from "../ts/graph/tensor.ts";
import { toText } from "../ts/graph/print.ts";
import { Type } from "../ts/types.ts";

const host: GraphHost = {
  plan: () => [],
  compute: () => Promise.resolve(),
  release: () => undefined,
  pin: () => undefined,
  splitsText: () => "",
};
const graph = (): Graph => new Graph(host);

test("expands depth first, sources in slot order, each tensor once", () => {
  const g = graph();
  const a = g.input("a", Type.F32, [3]);
  const b = g.input("b", Type.F32, [3]);
  const s = g.add(a, b).named("s");
  const p = g.mul(s, g.sub(b, a).named("d")).named("p");
  const out = g.add(p, s).named("out").asOutput();
  const { leafs, nodes } = g.program();
  expect(leafs).toEqual([a, b]);
  expect(nodes.map((n) => n.tensor.name)).toEqual(["s", "d", "p", "out"]);
  expect(nodes[3]!.tensor).toBe(out);
});

test("a graph of 200,000 nodes in a row is expanded without running out of stack", () => {
  const g = graph();
  let x = g.input("x", Type.F32, [1]);
  for (let i = 0; i < 200_000; i++) x = g.sqr(x);
  x.asOutput();
  expect(g.program().nodes.length).toBe(200_000);
});

test("a tensor that names itself as a source is not followed", () => {
  const x = leaf("x", Type.F32, [4]);
  const src: Tensor[] = [x];
  const cast = new Tensor({ op: Op.CPY, type: Type.F16, ne: [4, 1, 1, 1], nb: [2, 8, 8, 8], src });
  src.push(cast);
  const program = expand([cast]);
  expect(program.nodes.map((n) => n.tensor)).toEqual([cast]);
  checkProgram(program);
});

test("views of views look into the root with summed offsets", () => {
  const g = graph();
  const a = g.input("a", Type.F32, [8, 6]);
  const rows = g.view(a, [8, 3], { nb: [32], offset: 64 });
  const part = g.view(rows, [4, 2], { nb: [32], offset: 16 });
  expect(part.viewSrc).toBe(a);
  expect(part.viewOffs).toBe(80);
  const t = g.transpose(part);
  expect([t.viewSrc, t.viewOffs, ...t.ne, ...t.nb.slice(0, 2)]).toEqual([a, 80, 2, 4, 1, 1, 32, 4]);
});

test("marking a view as output keeps its root", () => {
  const g = graph();
  const s = g.add(g.input("a", Type.F32, [6]), g.input("b", Type.F32, [6]));
  g.reshape(s, [2, 3]).asOutput("y");
  expect(s.flags & Flag.OUTPUT).toBe(Flag.OUTPUT);
});

test("refuses shapes that do not fit, with both in the message", () => {
  const g = graph();
  const a = g.weight("a", Type.F32, [64, 8]);
  const b = g.input("b", Type.F32, [63, 2]);
  expect(() => g.mulMat(a, b)).toThrow(/mul_mat.*\[64,8,1,1\].*\[63,2,1,1\]/);
  expect(() => g.add(a, b)).toThrow(expect.objectContaining({ name: "GraphError", code: "bad-shape" }));
  expect(() => g.reshape(a, [5, 5])).toThrow(expect.objectContaining({ code: "bad-shape" }));
  expect(() => g.view(a, [64, 9])).toThrow(expect.objectContaining({ code: "bad-param" }));
});

test("refuses leafs that are no tensors", () => {
  const g = graph();
  const code = (value: string): unknown => expect.objectContaining({ name: "GraphError", code: value });
  expect(() => g.leaf("x", 4 as Type, [32])).toThrow(code("bad-type"));
  expect(() => g.leaf("x", Type.F32, [1.5])).toThrow(code("bad-shape"));
  expect(() => g.leaf("x", Type.F32, [-1])).toThrow(code("bad-shape"));
  expect(() => g.leaf("x", Type.F32, [1, 1, 1, 1, 1])).toThrow(code("bad-shape"));
  expect(() => g.leaf("x", Type.Q8_0, [33])).toThrow(code("bad-shape"));
  expect(() => g.leaf("x", Type.F32, [2 ** 31, 2 ** 31])).toThrow(code("too-large"));
});

test("a graph without outputs cannot be planned", () => {
  const g = graph();
  g.add(g.input("a", Type.F32, [1]), g.input("b", Type.F32, [1]));
  expect(() => g.program()).toThrow(expect.objectContaining({ code: "bad-plan" }));
});

test("prints every tensor as text and as dot", () => {
  const g = graph();
  const a = g.input('a "quoted"', Type.F32, [4, 2]);
  g.softMax(g.reshape(a, [8])).asOutput("y");
  expect(g.toText()).toBe(
    [
      '%0 = none() F32 [4,2,1,1] "a "quoted""',
      "%1 = reshape(%0) F32 [8,1,1,1] view of %0 + 0",
      '%2 = soft_max(%1) F32 [8,1,1,1] "y"',
    ].join("\n"),
  );
  expect(toText(g.program())).toBe(g.toText());
  const dot = g.toDot();
  expect(dot).toContain("n0 -> n1;");
  expect(dot).toContain('label="a \\"quoted\\"\\nF32 [4,2,1,1]"');
});

test("half-precision conversions are exact for all codes and round to nearest even", () => {
  for (let h = 0; h < 65536; h++) {
    const x = fromF16(h);
    if (Number.isNaN(x)) expect(Number.isNaN(fromF16(toF16(x)))).toBe(true);
    else expect(toF16(x)).toBe(h);
    const y = fromBF16(h);
    if (Number.isNaN(y)) expect(Number.isNaN(fromBF16(toBF16(y)))).toBe(true);
    else expect(toBF16(y)).toBe(h);
  }
  // Halfway between neighbours the even code wins; what rounds up past the largest finite value is infinite.
  for (let h = 0; h < 0x7bff; h++) expect(toF16((fromF16(h) + fromF16(h + 1)) / 2)).toBe(h + (h & 1));
  expect(toF16(65519)).toBe(0x7bff);
  expect(toF16(65520)).toBe(0x7c00);
});
