// Weights in quads, Flag.QUADS: two times four rows interleaved in place (assembly/quants/quads.ts). Who can read them so.

import { Flag, Op } from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import { BLOCK_WEIGHTS } from "../ops/mul_mat.ts";
import type { Program } from "./program.ts";
import type { Tensor } from "./tensor.ts";

const READERS: readonly Op[] = [Op.MUL_MAT, Op.MUL_MAT_ID, Op.GET_ROWS];
const PAIR_ROWS = 8;

/** True when `a`, a tensor or a view of one, consists of whole quads of its root. */
export function isWholeQuads(a: Tensor): boolean {
  const { ne, nb } = a.root;
  const pair = PAIR_ROWS * nb[1];
  const stepsQuads = (i: 2 | 3): boolean => a.ne[i] === 1 || a.nb[i] % pair === 0;
  return (
    a.ne[0] === ne[0] &&
    a.nb[0] === nb[0] &&
    a.nb[1] === nb[1] &&
    a.ne[1] % PAIR_ROWS === 0 &&
    a.viewOffs % pair === 0 &&
    stepsQuads(2) &&
    stepsQuads(3)
  );
}

// Can a node read its source `i` in quads? A view computes nothing: what reads the view decides.
function takesQuads(op: Op, a: Tensor, i: number): boolean {
  return op <= Op.TRANSPOSE || (i === 0 && READERS.includes(op) && isWholeQuads(a));
}

/** Leafs that could lie in quads, as far as type, shape and every reader of these programs go. */
export function quadLeafs(programs: readonly Program[]): Set<Tensor> {
  const leafs = programs.flatMap((p) => p.leafs);
  const fit = new Set(leafs.filter((t) => BLOCK_WEIGHTS.includes(t.type) && isWholeQuads(t)));
  for (const { tensor, src } of programs.flatMap((p) => p.nodes)) {
    src.forEach((a, i) => {
      if (a !== undefined && !takesQuads(tensor.op, a, i)) fit.delete(a.root);
    });
  }
  return fit;
}

/**
 * Refuses nodes that would read a tensor in quads as if it were in file order.
 *
 * @throws {GraphError} bad-source
 */
export function checkQuads(program: Program): void {
  for (const { tensor, src } of program.nodes) {
    src.forEach((a, i) => {
      if (a === undefined || (a.root.flags & Flag.QUADS) === 0 || takesQuads(tensor.op, a, i)) return;
      const op = Op[tensor.op]!.toLowerCase();
      const why = READERS.includes(tensor.op)
        ? `a view of it must have whole rows, and start and step at multiples of ${PAIR_ROWS} rows`
        : 'load the model with layout "file"';
      throw new GraphError("bad-source", `${op}: source ${a.label()} lies in quads of rows: ${why}`, {
        op,
        tensor: a.name,
      });
    });
  }
}
