// Tokens to text as they come: never half a character, no control tokens.

/** What is needed of a tokenizer. */
export interface Pieces {
  /** a blank was put before the text when it was encoded */
  readonly addSpacePrefix: boolean;
  /** bytes that a token prints */
  piece(id: number, special?: boolean): Uint8Array;
}

/** How a stream begins and what it shows. */
export interface StreamOptions {
  /** The text begins here: the blank put before it is taken off. False (default) when it continues a prompt. */
  readonly atStart?: boolean;
  /** also print control tokens; default false */
  readonly special?: boolean;
}

const BLANK = 0x20;

/**
 * Joins pieces into text. A character whose bytes are not all there yet is held back; bytes that can be no character become
 * U+FFFD as soon as that is certain. The parts joined equal the text decoded at once.
 */
export class StreamDecoder {
  readonly #pieces: Pieces;
  readonly #special: boolean;
  readonly #utf8: TextDecoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #blankOff: boolean;

  constructor(pieces: Pieces, options: StreamOptions = {}) {
    this.#pieces = pieces;
    this.#special = options.special ?? false;
    this.#blankOff = (options.atStart ?? false) && pieces.addSpacePrefix;
  }

  /**
   * Text that is certain now; often empty.
   *
   * @throws {GraphError} token-range
   */
  push(id: number): string {
    let piece = this.#pieces.piece(id, this.#special);
    if (piece.length === 0) return "";
    if (this.#blankOff && piece[0] === BLANK) piece = piece.subarray(1);
    this.#blankOff = false;
    return this.#utf8.decode(piece, { stream: true });
  }

  /** What is left at the end: U+FFFD for an unfinished character, else nothing. */
  flush(): string {
    return this.#utf8.decode();
  }
}
