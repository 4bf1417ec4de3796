// Importance of the columns of matrices, from a file of sums of squared activations as llama.cpp's imatrix tool writes it.
//
//   NAME.in_sum2 F32 [columns, experts]   sums of squares      NAME.counts F32 [1, experts]   how many were added

import { FormatError } from "../../errors.ts";
import { openGguf, type SourceInput, type TensorInfo } from "../../gguf/index.ts";
import { Type } from "../../types.ts";

/** Means of squared activations by tensor: a row for each expert, or one row. */
export type Importance = ReadonlyMap<string, readonly Float32Array[]>;

const SUMS = ".in_sum2";
const COUNTS = ".counts";

/** @throws {FormatError} missing-tensor, unsupported-type, shape-mismatch, and what {@link openGguf} throws */
export async function readImportance(input: SourceInput, signal?: AbortSignal): Promise<Importance> {
  const { file, source } = await openGguf(input, { signal });
  try {
    const read = async (t: TensorInfo): Promise<Float32Array> => {
      if (t.type !== Type.F32)
        throw new FormatError("unsupported-type", `${t.name}: expected F32`, { tensor: t.name });
      return new Float32Array((await source.read(t.offset, t.nBytes, signal)).slice().buffer);
    };
    const rows = new Map<string, readonly Float32Array[]>();
    for (const t of file.tensors) {
      if (!t.name.endsWith(SUMS)) continue;
      const name = t.name.slice(0, -SUMS.length);
      const counts = file.tensorByName.get(name + COUNTS);
      if (counts === undefined) {
        throw new FormatError("missing-tensor", `${name}${COUNTS}: missing`, { tensor: name + COUNTS });
      }
      rows.set(name, means(t, await read(t), await read(counts)));
    }
    return rows;
  } finally {
    await source.close();
  }
}

// An expert that no token was sent to has no preferences.
function means(t: TensorInfo, sums: Float32Array, counts: Float32Array): Float32Array[] {
  const [n, experts = 1] = t.ne as readonly [number, ...number[]];
  if (counts.length !== experts) {
    throw new FormatError("shape-mismatch", `${t.name}: ${experts} rows, but ${counts.length} counts`, {
      tensor: t.name,
      expected: experts,
      actual: counts.length,
    });
  }
  return Array.from(counts, (count, i) =>
    sums.slice(i * n, (i + 1) * n).map((sum) => (count > 0 ? sum / count : 1)),
  );
}
