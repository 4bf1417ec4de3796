// Kernels of the GPU by operator.

import { Op } from "../../../assembly/abi.ts";
import type { Kernels } from "../kernel.ts";
import { binaryKernel } from "./binary.ts";

export const KERNELS: Kernels = {
  [Op.ADD]: binaryKernel("+"),
  [Op.SUB]: binaryKernel("-"),
  [Op.MUL]: binaryKernel("*"),
  [Op.DIV]: binaryKernel("/"),
};
