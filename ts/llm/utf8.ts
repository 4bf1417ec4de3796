// Characters in UTF-8.

/** Bytes of the character that begins at `at`, by its first byte, cut at the end of the text. */
export function characterBytes(text: Uint8Array, at: number): number {
  const lead = text[at]!;
  const size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return Math.min(size, text.length - at);
}

/** Does a whole character begin at `at`? */
export function validCharacter(text: Uint8Array, at: number): boolean {
  const lead = text[at]!;
  if (lead < 0x80) return true;
  const size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (lead < 0xc2 || lead > 0xf4 || at + size > text.length) return false;
  for (let i = at + 1; i < at + size; i++) if ((text[i]! & 0xc0) !== 0x80) return false;
  return true;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const encoder = new TextEncoder();

/** The same text, bytes that are not UTF-8 as U+FFFD; a leading U+FEFF is kept. */
export function textOf(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** UTF-8 of a text, lone surrogates as U+FFFD. */
export function bytesOf(text: string): Uint8Array {
  if (typeof text !== "string") throw new TypeError(`a text expected, not ${typeof text}`);
  return encoder.encode(text);
}
