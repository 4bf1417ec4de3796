// Inflates what bundles hold deflated: the cores, and the text of the model worker.

/** The bytes of a raw deflate stream, by the host's own means. */
export async function inflate(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
