// Continues a text with an RWKV file over bytes: node build/examples/rwkv/run.js model.bin "text"
import { readFileSync } from "node:fs";
import { createEngine } from "../../ts/index.ts";
import { Rwkv, readRwkv } from "./rwkv.ts";

const [path, text = "\n"] = process.argv.slice(2);
if (path === undefined) throw new Error("usage: run.js model.bin [text]");
using engine = await createEngine();
const model = new Rwkv(engine, readRwkv(new Uint8Array(readFileSync(path))));
let logits = new Float32Array() as Float32Array;
for (const byte of new TextEncoder().encode(text)) logits = await model.next(byte);

const bytes: number[] = [];
for (let i = 0; i < 80; i++) {
  bytes.push(logits.indexOf(Math.max(...logits)));
  logits = await model.next(bytes[i]!);
}
console.log(text + new TextDecoder().decode(Uint8Array.from(bytes)));
