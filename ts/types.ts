// What an element type is: block length, block bytes. One table.

import { Type } from "../assembly/abi.ts";

export { Type };

/** One element type. A row of `blockSize` k elements takes k * `typeSize` bytes. */
export interface TypeInfo {
  readonly name: string;
  /** elements per block */
  readonly blockSize: number;
  /** bytes per block */
  readonly typeSize: number;
}

const BLOCKS: { readonly [K in Exclude<Type, Type.COUNT>]: readonly [blockSize: number, typeSize: number] } =
  {
    [Type.F32]: [1, 4],
    [Type.F16]: [1, 2],
    [Type.Q4_0]: [32, 18],
    [Type.Q4_1]: [32, 20],
    [Type.Q5_0]: [32, 22],
    [Type.Q5_1]: [32, 24],
    [Type.Q8_0]: [32, 34],
    [Type.Q8_1]: [32, 36],
    [Type.Q2_K]: [256, 84],
    [Type.Q3_K]: [256, 110],
    [Type.Q4_K]: [256, 144],
    [Type.Q5_K]: [256, 176],
    [Type.Q6_K]: [256, 210],
    [Type.Q8_K]: [256, 292],
    [Type.IQ2_XXS]: [256, 66],
    [Type.IQ2_XS]: [256, 74],
    [Type.IQ3_XXS]: [256, 98],
    [Type.IQ1_S]: [256, 50],
    [Type.IQ4_NL]: [32, 18],
    [Type.IQ3_S]: [256, 110],
    [Type.IQ2_S]: [256, 82],
    [Type.IQ4_XS]: [256, 136],
    [Type.I8]: [1, 1],
    [Type.I16]: [1, 2],
    [Type.I32]: [1, 4],
    [Type.I64]: [1, 8],
    [Type.F64]: [1, 8],
    [Type.IQ1_M]: [256, 56],
    [Type.BF16]: [1, 2],
    [Type.TQ1_0]: [256, 54],
    [Type.TQ2_0]: [256, 66],
    [Type.MXFP4]: [32, 17],
    [Type.NVFP4]: [64, 36],
    [Type.Q1_0]: [128, 18],
    [Type.Q2_0]: [64, 18],
  };

const INFO = new Map<number, TypeInfo>(
  Object.entries(BLOCKS).map(([id, [blockSize, typeSize]]) => [
    Number(id),
    { name: Type[Number(id)] as string, blockSize, typeSize },
  ]),
);

/** Facts of a type; undefined for dead and unknown ids. */
export function typeInfo(type: number): TypeInfo | undefined {
  return INFO.get(type);
}

/** Name of a type id, for messages. */
export function typeName(type: number): string {
  return INFO.get(type)?.name ?? `type ${type}`;
}

/** Type of a name in any case ("q8_0", "Q4_K"); undefined when there is none. */
export function typeOf(name: string): Type | undefined {
  for (const [id, info] of INFO) if (info.name.toLowerCase() === name.toLowerCase()) return id;
  return undefined;
}

/** Block types keep a scale per block; their rows cannot be cut inside a block. */
export function isQuantized(type: Type): boolean {
  return INFO.get(type)!.blockSize > 1;
}
