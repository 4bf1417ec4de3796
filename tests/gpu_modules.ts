// Every shader module that the operator cases and the types of weights, tables and caches lead to, for compilers to judge.

import { Op } from "../assembly/abi.ts";
import { leaf, Tensor } from "../ts/graph/tensor.ts";
import { TABLES } from "../ts/ops/get_rows.ts";
import { opDef } from "../ts/ops/index.ts";
import { WEIGHTS } from "../ts/ops/mul_mat.ts";
import { BLOCKS, type OpDef } from "../ts/ops/op.ts";
import { contiguous, type Shape, type Strides } from "../ts/shape.ts";
import { Type } from "../ts/types.ts";
import type { Caps, Dispatch } from "../ts/webgpu/kernel.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";
import { aloneIn, moduleSource } from "../ts/webgpu/module.ts";
import type { Source } from "./cases/case.ts";
import { CASES } from "./cases/index.ts";

/** WGSL and what runs it. */
export interface Module {
  readonly label: string;
  readonly code: string;
}

const CAPS: Caps = {
  f16: false,
  subgroups: false,
  subgroupMin: 4,
  subgroupMax: 64,
  dot4: true,
  maxBinding: 2 ** 27,
  maxInvocations: 256,
  maxWorkgroupBytes: 32768,
};

type Sources = readonly (Tensor | undefined)[];
type Add = (op: Op, src: Sources, params?: object) => void;

/** Modules with or without WGSL's extensions, each once. */
export function allModules(extensions: Partial<Pick<Caps, "f16" | "subgroups">>): Module[] {
  const modules = new Map<string, Module>();
  const caps = { ...CAPS, ...extensions };
  const add: Add = (op, src, params = {}) => {
    for (const d of dispatchesOf(op, src, params, caps))
      if (!modules.has(d.key)) modules.set(d.key, { label: d.label, code: codeOf(d) });
  };
  for (const [op, cases] of Object.entries(CASES))
    if (Number(op) > Op.TRANSPOSE) for (const c of cases) add(Number(op), c.src.map(made), c.params);
  products(add);
  rows(add);
  attentions(add);
  for (const n of [64, 5000]) {
    add(Op.ARGSORT, [x(Type.F32, [n, 2])], { order: "asc" });
    add(Op.TOP_K, [x(Type.F32, [n, 2])], { k: 9 });
  }
  return [...modules.values()];
}

function dispatchesOf(op: Op, src: Sources, params: object, caps: Caps): readonly Dispatch[] {
  const def = opDef(op) as unknown as OpDef<object>;
  const { type, ne, nb = contiguous(type, ne), params: slots = [], viewOf } = def.infer(src, params);
  const root = viewOf === undefined ? undefined : src[viewOf]?.root;
  const tensor = new Tensor({ op, type, ne, nb, src, params: slots, viewSrc: root });
  const kernel = KERNELS[op];
  return kernel?.supports({ tensor, src }, caps) === true ? kernel.dispatches({ tensor, src }, caps) : [];
}

function codeOf(dispatch: Dispatch): string {
  return moduleSource(dispatch, aloneIn(dispatch));
}

const x = (type: Type, ne: readonly number[]): Tensor => leaf("x", type, ne);

function made(s: Source | undefined): Tensor | undefined {
  if (s?.axes === undefined) return s && x(s.type, s.ne);
  const t = x(s.type, s.ne);
  const [ne, nb] = [
    [0, 0, 0, 0],
    [0, 0, 0, 0],
  ];
  s.axes.forEach((to, i) => {
    ne[to] = t.ne[i]!;
    nb[to] = t.nb[i]!;
  });
  return new Tensor({
    op: Op.PERMUTE,
    type: s.type,
    ne: ne as unknown as Shape,
    nb: nb as unknown as Strides,
    viewSrc: t,
  });
}

function products(add: Add): void {
  for (const type of WEIGHTS) {
    for (const n of [1, 2, 40]) add(Op.MUL_MAT, [x(type, [512, 9]), x(Type.F32, [512, n])]);
    add(Op.MUL_MAT, [x(type, [512, 100]), x(Type.F32, [512, 100])]);
    for (const tokens of [3, 40, 200])
      add(Op.MUL_MAT_ID, [x(type, [512, 100, 4]), x(Type.F32, [512, 1, tokens]), x(Type.I32, [2, tokens])]);
  }
  for (const n of [1, 40]) add(Op.MUL_MAT, [x(Type.F16, [33, 9]), x(Type.F16, [33, n])]);
}

function rows(add: Add): void {
  for (const type of TABLES) {
    add(Op.GET_ROWS, [x(type, [512, 9]), x(Type.I32, [3])]);
    if (type !== Type.I32) add(Op.CPY, [x(type, [512, 9])], { type: Type.F32 });
  }
  for (const type of BLOCKS) {
    add(Op.CPY, [x(Type.F32, [512, 9])], { type });
    add(Op.SET_ROWS, [x(Type.F32, [512, 3]), x(Type.I64, [3]), x(type, [512, 9])]);
    add(Op.ADD, [x(type, [512, 3]), x(Type.F16, [512])]);
  }
}

function attentions(add: Add): void {
  for (const type of [Type.F32, Type.F16, Type.Q8_0, Type.Q4_0])
    for (const tokens of [1, 4])
      for (const cells of [200, 4000]) {
        const cache = x(type, [64, cells, 4]);
        const qkv = [x(Type.F32, [64, tokens, 4]), cache, cache];
        const mask = x(Type.F16, [cells, 32]);
        const sinks = x(Type.F32, [4]);
        const length = x(Type.I32, [2]);
        const spans = x(Type.I32, [2, 8]);
        add(Op.FLASH_ATTN_EXT, [...qkv, mask], { scale: 1, softcap: 5, maxBias: 8 });
        add(Op.FLASH_ATTN_EXT, [...qkv, undefined, sinks, length], { scale: 1, window: 9 });
        const both = { scale: 1, window: 9, twoSided: true, maxBias: 8 };
        add(Op.FLASH_ATTN_EXT, [...qkv, undefined, undefined, undefined, spans], both);
      }
  const [k, v] = [x(Type.F16, [576, 200, 1]), x(Type.F16, [512, 200, 1])];
  add(Op.FLASH_ATTN_EXT, [x(Type.F32, [576, 2, 4]), k, v], { scale: 1 });
}

/** Labels and messages of the modules that a device's compiler refuses. */
export async function refusedBy(device: GPUDevice, modules: readonly Module[]): Promise<string[]> {
  const refused: string[] = [];
  for (const { label, code } of modules) {
    device.pushErrorScope("validation");
    device.createShaderModule({ code });
    const error = await device.popErrorScope();
    if (error !== null) refused.push(`${label}: ${error.message}`);
  }
  return refused;
}
