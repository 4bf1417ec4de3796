// Prints where a recording holds speech: node build/examples/silero-vad/detect.js model.bin sound.wav (16 kHz, one channel, 16 bits).
import { readFileSync } from "node:fs";
import { createEngine } from "../../ts/index.ts";
import { segmentsOf } from "./segments.ts";
import { readSilero, Silero } from "./silero.ts";
import { readWav } from "./wav.ts";

const [path, sound] = process.argv.slice(2);
if (path === undefined || sound === undefined) throw new Error("usage: detect.js model.bin sound.wav");
const { rate, samples } = readWav(new Uint8Array(readFileSync(sound)));
if (rate !== 16000) throw new Error(`${rate} samples a second, expected 16000`);
using engine = await createEngine();
const model = new Silero(engine, readSilero(new Uint8Array(readFileSync(path))));
const probabilities = await model.probabilities(samples);
for (const { start, end } of segmentsOf(probabilities, model.window, samples.length))
  console.log(`${(start / rate).toFixed(2)} s to ${(end / rate).toFixed(2)} s`);
