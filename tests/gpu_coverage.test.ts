// Every operator in every type that the CPU has is on the GPU too, but for a list: asked of the shape rules and the kernels,
// no adapter needed. Shapes and parameters are those of the golden cases, types all there are.
import { expect, test } from "vitest";
import { Op, Type } from "../assembly/abi.ts";
import { GraphError } from "../ts/errors.ts";
import type { ProgramNode } from "../ts/graph/program.ts";
import { leaf, Tensor } from "../ts/graph/tensor.ts";
import { opDef } from "../ts/ops/index.ts";
import type { OpDef } from "../ts/ops/op.ts";
import { contiguous } from "../ts/shape.ts";
import { typeInfo, typeOf } from "../ts/types.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";
import { describeWith } from "./data.ts";
import type { OpSpec } from "./golden/cases.ts";
import { goldenCases } from "./golden/file.ts";
import { decodeParams } from "./golden/params.ts";
import { LEAST } from "./least_caps.ts";

const TYPES: readonly Type[] = Array.from({ length: 64 }, (_, t) => t as Type).filter((t) => typeInfo(t));
/** Made by a search for scales, which is the CPU's: docs/ops.md. */
const SEARCHED: readonly Type[] = [Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_XS];

/** What a case says, with other types. */
interface Variant {
  readonly src: readonly (Type | undefined)[];
  readonly dst: Type;
}

function variantsOf(op: Op, spec: OpSpec): Variant[] {
  const src = spec.src.map((s) => (s === null ? undefined : typeOf(s.type)));
  const own = { src, dst: typeOf(spec.type)! };
  const others = src.flatMap((t, i) => (t === undefined ? [] : TYPES.map((u) => src.with(i, u))));
  // only copies go from any type to any other
  const pairs = op === Op.CPY ? others : [];
  return [
    own,
    ...TYPES.map((dst) => ({ src, dst })),
    ...others.map((types) => ({ ...own, src: types })),
    ...pairs.flatMap((types) => TYPES.map((dst) => ({ src: types, dst }))),
  ];
}

/** The node of an operator in these types; undefined when its rule, which is the CPU's, refuses them. */
function nodeOf(op: Op, spec: OpSpec, { src: types, dst }: Variant): ProgramNode | undefined {
  const whole = spec.src.every((s, i) => s === null || s.ne[0]! % typeInfo(types[i]!)!.blockSize === 0);
  if (!whole) return undefined;
  const src = spec.src.map((s, i) => (s === null ? undefined : leaf(`src${i}`, types[i]!, s.ne)));
  const params = decodeParams(op, spec.op_params, { type: dst, ne: spec.ne, nb: [] });
  try {
    const def = opDef(op) as unknown as OpDef<object>;
    const { type, ne, nb = contiguous(type, ne), params: slots = [], viewOf } = def.infer(src, params);
    const view = viewOf === undefined ? {} : { viewSrc: src[viewOf]! };
    return { tensor: new Tensor({ op, type, ne, nb, src, params: slots, ...view }), src };
  } catch (error) {
    if (error instanceof GraphError) return undefined;
    throw error;
  }
}

function named({ tensor, src }: ProgramNode): string {
  const types = src.map((s) => (s === undefined ? "-" : Type[s.type]));
  return `${Op[tensor.op]} ${types.join(" ")} -> ${Type[tensor.type]}`;
}

describeWith("golden", "operators and types", () => {
  test("are all on the GPU but for floats to blocks of 256", () => {
    const taken = new Set<string>();
    const left = new Map<string, Type>();
    const ops = new Set<Op>();
    for (const { spec } of goldenCases()) {
      const op = (Op as unknown as Partial<Record<string, Op>>)[(spec as OpSpec).ggml_op];
      if (op === undefined || op <= Op.TRANSPOSE) continue;
      for (const variant of variantsOf(op, spec as OpSpec)) {
        const node = nodeOf(op, spec as OpSpec, variant);
        if (node === undefined) continue;
        ops.add(op);
        if (KERNELS[op]?.supports(node, LEAST) === true) taken.add(named(node));
        else left.set(named(node), node.tensor.type);
      }
    }
    expect([...left.keys()].filter((name) => !/^(CPY|DUP|CONT) /.test(name))).toEqual([]);
    expect(new Set(left.values())).toEqual(new Set(SEARCHED));
    expect(taken.size).toBeGreaterThan(400);
    const all = Array.from({ length: Op.COUNT }, (_, op) => op as Op).filter((op) => op > Op.TRANSPOSE);
    expect([...ops].sort((a, b) => a - b)).toEqual(all);
  });
});
