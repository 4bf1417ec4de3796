// A mixture of experts: a router chooses a few feed-forward blocks for each token.

import type { Tensor } from "../../graph/tensor.ts";
import { FormatError } from "../../errors.ts";
import type { Scope } from "./scope.ts";

/** How a router's scores become weights. */
export interface Routing {
  /** the weights of the chosen are divided by their sum */
  readonly norm: boolean;
}

export function experts(scope: Scope, x: Tensor, _routing: Routing): Tensor {
  scope.matrix("ffn_gate_inp.weight", x.ne[0], scope.p.nExpert);
  throw new FormatError("unsupported-arch", `${scope.p.arch}: ${scope.p.nExpert} experts are not supported`, {
    key: `${scope.p.arch}.expert_count`,
  });
}
