// Real vocabularies with texts and the ids that llama.cpp gives for them (VOCAB_DIR).
import { readdirSync } from "node:fs";
import { parseGguf } from "../ts/gguf/index.ts";
import { Metadata } from "../ts/llm/metadata.ts";
import { type Tokenizer, loadTokenizer } from "../ts/llm/tokenizer.ts";
import { dataDir, readData } from "./data.ts";

/** A text and its ids, without special tokens added or parsed. */
export interface VocabCase {
  readonly text: string;
  readonly ids: readonly number[];
}

/** Vocabulary files that have cases, by name. */
export function vocabNames(): string[] {
  const names = readdirSync(dataDir("vocab"));
  return names.filter((name) => name.endsWith(".gguf") && names.includes(`${name}.inp`)).toSorted();
}

/** The tokenizer of a vocabulary file. */
export function vocabTokenizer(name: string): Tokenizer {
  return loadTokenizer(new Metadata(parseGguf(readData("vocab", name)).metadata));
}

/** Texts end before newline and separator; what follows the last separator is no text. Ids stand one text a line. */
export function vocabCases(name: string): VocabCase[] {
  const read = (end: string): string => new TextDecoder().decode(readData("vocab", name + end));
  const lines = read(".out").split("\n");
  const texts = read(".inp").split("\n__ggml_vocab_test__\n").slice(0, -1);
  if (texts.length === 0 || lines.length !== texts.length + 1)
    throw new Error(`${texts.length} texts, ${lines.length - 1} lines of ids`);
  return texts.map((text, i) => ({ text, ids: lines[i]!.split(" ").filter(Boolean).map(Number) }));
}

/** How many of the texts get their ids, and how many come back from them. */
export function countVocab(name: string): {
  texts: number;
  encoded: number;
  decoded: number;
  wrong: string[];
} {
  const tokenizer = vocabTokenizer(name);
  const cases = vocabCases(name);
  const wrong: string[] = [];
  let decoded = 0;
  for (const { text, ids } of cases) {
    const found = tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
    if (found.join() !== ids.join())
      wrong.push(`${JSON.stringify(text)}: ${found.join()}, expected ${ids.join()}`);
    if (tokenizer.decode(ids) === text) decoded++;
  }
  return { texts: cases.length, encoded: cases.length - wrong.length, decoded, wrong };
}
