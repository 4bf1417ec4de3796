// docs/ops.md, made from the operator definitions. `npm run docs` writes it; docs.test.ts compares.
import { writeFileSync } from "node:fs";
import { Glu, Op, Unary } from "../assembly/abi.ts";
import { OPS } from "../ts/ops/index.ts";
import type { OpDef } from "../ts/ops/op.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";

const HEAD = `# Operators

Generated from \`ts/ops/\` by \`npm run docs\`. Shapes are innermost first; a dimension that is not named is 1 or passed
through; \`?\` marks an optional source. "In place": the result may take over the memory of a source that nobody reads later.
All operators run on the CPU with the types their line names (F32 where it names none). "WebGPU": there is a kernel for the
same types and shapes, but for what the column says. Every kernel wants strides and offsets that are multiples of what the
type is made of (4 bytes; 2 of 16-bit types and of blocks of an odd number of halves), and operands that fit into a binding of
the device; tables, matrices of weights and experts above that are read through windows.

| operator | sources -> result | in place | WebGPU |
| --- | --- | --- | --- |
`;

function line(op: Op, def: OpDef<never>): string {
  return `| \`${def.name}\` | ${def.doc.replaceAll("|", "\\|")} | ${def.inplace ? "yes" : ""} | ${onGpu(op)} |`;
}

function onGpu(op: Op): string {
  if (op <= Op.TRANSPOSE) return "a view";
  const kernel = KERNELS[op];
  if (kernel === undefined) return "";
  return kernel.note === undefined ? "yes" : `yes; ${kernel.note}`;
}

function names(members: object, count: number): string {
  return Array.from(
    { length: count },
    (_, i) => `\`${(members as Record<number, string>)[i]!.toLowerCase()}\``,
  ).join(", ");
}

/** The whole page. */
export function opsMarkdown(): string {
  const defs = Object.entries(OPS) as [string, OpDef<never>][];
  const lines = defs.sort(([a], [b]) => Number(a) - Number(b)).map(([op, def]) => line(Number(op), def));
  const functions = `\nFunctions of \`unary\`: ${names(Unary, Unary.COUNT)}.\n\nFunctions of \`glu\`: ${names(Glu, Glu.COUNT)}.\n`;
  return `${HEAD}${lines.join("\n")}\n${functions}\n${lines.length} of ${Op.COUNT - 1} operators are described.\n`;
}

if (process.argv.includes("--write")) writeFileSync("docs/ops.md", opsMarkdown());
