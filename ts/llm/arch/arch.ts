// What an architecture says of itself.

import type { Tensor } from "../../graph/tensor.ts";
import type { Metadata } from "../metadata.ts";
import type { Params } from "../params.ts";
import type { Net } from "./net.ts";

export interface Arch {
  /** @throws {FormatError} missing-key, bad-type, bad-hparam, vocab-mismatch */
  readonly params: (meta: Metadata) => Params;
  /** rows of the last layer after the last norm: [E, O] */
  readonly rows: (net: Net) => Tensor;
  /** logits of such rows: [V, O]; absent: an encoder, which predicts no tokens */
  readonly logits?: (net: Net, rows: Tensor) => Tensor;
  /** what becomes of pooled rows [E, S], one for each text; absent: nothing */
  readonly pooled?: (net: Net, x: Tensor) => Tensor;
  /** heads are rotated as a whole */
  readonly wholeHeads?: boolean;
}
