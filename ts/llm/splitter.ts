// What a kind of vocabulary (SentencePiece, byte-pair, ...) does; the frame around it is the same for all.

/** Splits plain text, without special tokens in it, into ids, and knows how a token's text is printed. */
export interface Splitter {
  /** Appends the ids of `text` (UTF-8) to `out`. */
  split(text: Uint8Array, out: number[]): void;
  /** Bytes that a normal token prints, from its text in the vocabulary. */
  print(text: Uint8Array): Uint8Array;
}
