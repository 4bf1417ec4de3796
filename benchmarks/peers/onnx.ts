// The smallest ONNX model: Y = MatMul(A, B) with B in the file.

function varint(n: number): number[] {
  const out: number[] = [];
  for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128);
  return [...out, n];
}

/** A protobuf field: a number, or bytes with their length. */
function field(id: number, value: number | string | Uint8Array): Uint8Array {
  if (typeof value === "number") return Uint8Array.from([...varint(id << 3), ...varint(value)]);
  const bytes = typeof value === "string" ? new TextEncoder().encode(value) : value;
  return join(Uint8Array.from([...varint((id << 3) | 2), ...varint(bytes.length)]), bytes);
}

function join(...parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

const FLOAT = 1;

function valueInfo(name: string, n: number): Uint8Array {
  const shape = join(field(1, field(1, n)), field(1, field(1, n)));
  return join(field(1, name), field(2, field(1, join(field(1, FLOAT), field(2, shape)))));
}

/** Y[n, n] = A[n, n] B[n, n]. */
export function matMulModel(n: number, b: Float32Array): Uint8Array {
  const data = new Uint8Array(b.buffer, b.byteOffset, b.byteLength);
  const weights = join(field(1, n), field(1, n), field(2, FLOAT), field(8, "B"), field(9, data));
  const node = join(field(1, "A"), field(1, "B"), field(2, "Y"), field(4, "MatMul"));
  const graph = join(
    field(1, node),
    field(2, "g"),
    field(5, weights),
    field(11, valueInfo("A", n)),
    field(12, valueInfo("Y", n)),
  );
  return join(field(1, 8), field(7, graph), field(8, join(field(1, ""), field(2, 17))));
}
