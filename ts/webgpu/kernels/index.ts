// Kernels of the GPU by operator.

import { Op } from "../../../assembly/abi.ts";
import type { Kernels } from "../kernel.ts";
import { binaryKernel } from "./binary.ts";
import { gluKernel } from "./glu.ts";
import { unaryKernel } from "./unary.ts";

export const KERNELS: Kernels = {
  [Op.ADD]: binaryKernel("+"),
  [Op.ADD1]: binaryKernel("+"),
  [Op.SUB]: binaryKernel("-"),
  [Op.MUL]: binaryKernel("*"),
  [Op.DIV]: binaryKernel("/"),
  [Op.SQR]: unaryKernel,
  [Op.SQRT]: unaryKernel,
  [Op.LOG]: unaryKernel,
  [Op.SIN]: unaryKernel,
  [Op.COS]: unaryKernel,
  [Op.SCALE]: unaryKernel,
  [Op.CLAMP]: unaryKernel,
  [Op.LEAKY_RELU]: unaryKernel,
  [Op.FILL]: unaryKernel,
  [Op.UNARY]: unaryKernel,
  [Op.GLU]: gluKernel,
};
