// What an architecture says of itself.

import type { Tensor } from "../../graph/tensor.ts";
import type { Metadata } from "../metadata.ts";
import type { Params, Pooling } from "../params.ts";
import type { Net } from "./net.ts";

export interface Arch {
  /** @throws {FormatError} missing-key, bad-type, bad-hparam, vocab-mismatch */
  readonly params: (meta: Metadata) => Params;
  /** rows of the last layer after the last norm: [E, O] */
  readonly rows: (net: Net) => Tensor;
  /** logits of such rows: [V, O]; absent: an encoder, which predicts no tokens */
  readonly logits?: (net: Net, rows: Tensor) => Tensor;
  /** what pooled rows [E, S], one for each text, go through: [any, S]; absent: nothing */
  readonly project?: (net: Net, x: Tensor) => Tensor;
  /** scores of pooled rows [E, S]: [labels, S]; absent: no file of the kind is a classifier */
  readonly classify?: (net: Net, x: Tensor) => Tensor;
  /** how rows are pooled for a classifier; "cls" when absent */
  readonly rankBy?: Pooling;
  /** heads are rotated as a whole */
  readonly wholeHeads?: boolean;
}
