// A program as text and as a dot graph, for people.

import { Op } from "../../assembly/abi.ts";
import { str } from "../shape.ts";
import { typeName } from "../types.ts";
import type { Program } from "./program.ts";
import type { Tensor } from "./tensor.ts";

function indexed(program: Program): Map<Tensor, number> {
  return new Map([...program.leafs, ...program.nodes.map((n) => n.tensor)].map((t, i) => [t, i]));
}

/** One line per tensor: index, operator, type, shape, sources by index, name. */
export function toText(program: Program): string {
  const ids = indexed(program);
  const line = (t: Tensor, src: readonly (Tensor | undefined)[]): string => {
    const from = src.flatMap((s) => (s === undefined ? [] : [`%${ids.get(s)}`])).join(", ");
    const view = t.viewSrc === undefined ? "" : ` view of %${ids.get(t.viewSrc)} + ${t.viewOffs}`;
    const name = t.name === "" ? "" : ` "${t.name}"`;
    return `%${ids.get(t)} = ${Op[t.op]!.toLowerCase()}(${from}) ${typeName(t.type)} ${str(t.ne)}${view}${name}`;
  };
  return [...program.leafs.map((t) => line(t, [])), ...program.nodes.map((n) => line(n.tensor, n.src))].join(
    "\n",
  );
}

/** The program in Graphviz's language: leafs as boxes, views dashed. */
export function toDot(program: Program): string {
  const ids = indexed(program);
  const lines = ["digraph slackwater {", "  rankdir=BT; node [fontname=sans, fontsize=10];"];
  for (const [t, id] of ids) {
    const title = t.name === "" ? Op[t.op]!.toLowerCase() : t.name;
    const label = `${escaped(title)}\\n${typeName(t.type)} ${str(t.ne)}`;
    const style = t.isLeaf ? "box" : t.viewSrc === undefined ? "ellipse" : "ellipse, style=dashed";
    lines.push(`  n${id} [shape=${style}, label="${label}"];`);
  }
  for (const { tensor, src } of program.nodes) {
    for (const s of src) if (s !== undefined) lines.push(`  n${ids.get(s)} -> n${ids.get(tensor)};`);
  }
  return [...lines, "}"].join("\n");
}

// Inside a quoted string of Graphviz.
function escaped(text: string): string {
  return text.replaceAll(/["\\]/g, "\\$&").replaceAll(/\s/g, " ");
}
