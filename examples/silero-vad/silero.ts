// Silero VAD: how likely each 32 ms of 16 kHz sound hold speech. Spectrum, four convolutions, an LSTM, a sigmoid.
//
// File: u32 "ggml" | i32 length, name | i32 version[3] | i32 window context | i32 layers, per layer in out kernel
//       | i32 lstm in, hidden | i32 last in, out | tensors (../legacy/tensors.ts)

import { type Engine, type Graph, type Tensor, Type } from "../../ts/index.ts";
import { type LegacyTensor, readInts, readTensors } from "../legacy/tensors.ts";
import { Weights } from "../legacy/weights.ts";

const MAGIC = 0x67676d6c;
const TYPES: ReadonlyMap<number, Type> = new Map([
  [0, Type.F32],
  [1, Type.F16],
]);
// The convolutions over time: strides; all have kernels of 3 and paddings of 1.
const STRIDES = [1, 2, 2, 1];

/** A file, taken apart. */
export interface SileroFile {
  /** samples of a window */
  readonly window: number;
  /** elements of the LSTM's input and state */
  readonly nInput: number;
  readonly nHidden: number;
  readonly tensors: ReadonlyMap<string, LegacyTensor>;
}

/** Reads the legacy container. */
export function readSilero(file: Uint8Array): SileroFile {
  const [magic, nameLength] = readInts(file, 0, 2) as [number, number];
  if (magic !== MAGIC) throw new Error("not a Silero file");
  const at = 8 + nameLength;
  const [window, , nLayers] = readInts(file, at + 12, 3) as [number, number, number];
  if (nLayers !== STRIDES.length) throw new Error(`${nLayers} convolutions, expected ${STRIDES.length}`);
  const sizes = at + 24 + 12 * nLayers;
  const [nInput, nHidden] = readInts(file, sizes, 2) as [number, number];
  return { window, nInput, nHidden, tensors: readTensors(file, sizes + 16, TYPES) };
}

/** A planned detector with the state of one recording. */
export class Silero {
  /** samples of a window: 512 */
  readonly window: number;
  readonly #g: Graph;
  readonly #weights: Weights;
  readonly #samples: Tensor;
  readonly #probability: Tensor;

  constructor(engine: Engine, file: SileroFile) {
    this.window = file.window;
    this.#g = engine.graph();
    this.#weights = new Weights(this.#g, file.tensors);
    this.#samples = this.#g.input("samples", Type.F32, [file.window]);
    this.#probability = build(this.#g, this.#weights, file, this.#samples).asOutput("probability");
    this.#g.plan();
    this.#weights.write();
  }

  /** Probability of speech for each window of a recording, -1 to 1 at 16 kHz; zeros fill the last. */
  async probabilities(samples: Float32Array): Promise<Float32Array> {
    this.#weights.reset();
    const out = new Float32Array(Math.ceil(samples.length / this.window));
    const frame = new Float32Array(this.window);
    for (let i = 0; i < out.length; i++) {
      const part = samples.subarray(i * this.window, (i + 1) * this.window);
      frame.fill(0);
      frame.set(part);
      this.#samples.write(frame);
      await this.#g.compute();
      out[i] = ((await this.#probability.read()) as Float32Array)[0]!;
    }
    return out;
  }

  dispose(): void {
    this.#g.dispose();
  }
}

function build(g: Graph, w: Weights, file: SileroFile, samples: Tensor): Tensor {
  let x = spectrum(g, w, samples, file.nInput); //                     [4, 129]
  STRIDES.forEach((stride, i) => {
    const name = `_model.encoder.${i}.reparam_conv`;
    const bias = w.get(`${name}.bias`);
    const y = conv1d(g, w.get(`${name}.weight`), x, stride, 1);
    x = g.relu(g.add(y, g.reshape(bias, [1, bias.ne[0]]))); //         [4, 128] [2, 64] [1, 64] [1, 128]
  });
  const h = lstm(g, w, g.reshape(x, [file.nInput]), file.nHidden); //   [128]
  const last = g.reshape(w.get("_model.decoder.decoder.2.weight"), [file.nHidden]);
  const y = g.mulMat(last, g.relu(h)); //                              [1]
  return g.sigmoid(g.add(y, w.get("_model.decoder.decoder.2.bias")));
}

// Sums over K and C of kernel [K, C, OC] times x [L, C]: [OL, OC].
function conv1d(g: Graph, kernel: Tensor, x: Tensor, s0: number, p0: number): Tensor {
  const [k, c, oc] = kernel.ne;
  const patches = g.im2col(kernel, x, { is2D: false, s0, p0, type: kernel.type }); // [K C, OL]
  return g.mulMat(patches, g.reshape(kernel, [k * c, oc])); //         [OL, OC]
}

// Magnitudes of four overlapping windows. The basis holds cosines, then sines.
function spectrum(g: Graph, w: Weights, samples: Tensor, hop: number): Tensor {
  const basis = w.get("_model.stft.forward_basis_buffer"); //          [256, 1, 258]
  const y = conv1d(g, basis, g.padReflect1d(samples, 64, 64), hop, 0); // [4, 258]
  const half = basis.ne[2] / 2;
  const re = g.view(y, [y.ne[0], half]); //                            [4, 129]
  const im = g.view(y, [y.ne[0], half], { offset: half * y.nb[1] }); // [4, 129]
  return g.sqrt(g.add(g.sqr(re), g.sqr(im)));
}

// Gates in the order input, forget, cell, output.
function lstm(g: Graph, w: Weights, x: Tensor, n: number): Tensor {
  const h = w.state("h", n); //                                        [128]
  const c = w.state("c", n); //                                        [128]
  const at = (name: string): Tensor => w.get(`_model.decoder.rnn.${name}`);
  const gates = g.add(
    g.add(g.mulMat(at("weight_ih"), x), at("bias_ih")),
    g.add(g.mulMat(at("weight_hh"), h), at("bias_hh")),
  ); //                                                                [512]
  const gate = (i: number): Tensor => g.view(gates, [n], { offset: i * n * gates.nb[0] });
  const fresh = g.mul(g.sigmoid(gate(0)), g.tanh(gate(2)));
  const cell = g.add(g.mul(g.sigmoid(gate(1)), c), fresh);
  const out = g.mul(g.sigmoid(gate(3)), g.tanh(cell));
  // the old states are read before the new ones are written
  g.expand(out);
  g.expand(g.cpy(cell, c));
  g.expand(g.cpy(out, h));
  return out;
}
