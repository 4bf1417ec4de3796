// Inflates what bundles hold deflated: the cores, and the text of the model worker.

import { builtinModule } from "../builtin.ts";

interface Zlib {
  inflateRawSync(packed: Uint8Array): Uint8Array<ArrayBuffer>;
}

/** The bytes of a raw deflate stream, by the host's own means. */
export async function inflate(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const zlib = builtinModule<Zlib>("node:zlib");
  if (zlib !== undefined) return new Uint8Array(zlib.inflateRawSync(packed)); // the first stream of a process takes Node 100 ms
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
