// Runs nodes [first, last): one switch from Op to kernel, a barrier after each node.
//
// Every thread walks the same list. A kernel gets (node, ith, nth) and computes its share of the result; which thread
// computes an element never changes its bits.

import { NODE_BYTES, Op } from "./abi";
import { barrier, checkAbort, enter } from "./control";
import { add } from "./kernels/add";
import { mulMat } from "./kernels/mul_mat";
import { Node } from "./node";

// A new op must be looked at here: add its case to dispatch(), then raise this number.
if (Op.COUNT != 42) ERROR("compute.ts: new op without a kernel case");

/** Runs this thread's share; false when the run was left early. */
export function computeNodes(records: usize, first: i32, last: i32, ith: i32, nth: i32): bool {
  for (let i = first; i < last; i++) {
    const n = changetype<Node>(records + <usize>i * NODE_BYTES);
    if (n.op <= Op.TRANSPOSE) continue;
    enter(ith, i);
    dispatch(n, ith, nth);
    if (ith == 0) checkAbort();
    if (!barrier(nth)) return false;
  }
  return true;
}

function dispatch(n: Node, ith: i32, nth: i32): void {
  switch (n.op) {
    case Op.ADD:
      add(n, ith, nth);
      break;
    case Op.MUL_MAT:
      mulMat(n, ith, nth);
      break;
    default:
      unreachable();
  }
}
