// Writing parts of words: queue.writeBuffer takes whole words only, and what shares a word with a tensor must stay.

import type { GpuDevice } from "./device.ts";

const SOURCE = `
@group(0) @binding(0) var<storage, read_write> M: array<u32>;
@group(0) @binding(1) var<uniform> P: vec4u; // word, mask of the bits to write, bits
@compute @workgroup_size(1) fn entry() { M[P.x] = (M[P.x] & ~P.y) | P.z; }
`;
const UNIFORM_COPY_DST = 0x48; // GPUBufferUsage
const WINDOW = 256;

/** Writes of one to three bytes. */
export class WordPatch {
  readonly #gpu: GpuDevice;
  #pipeline: GPUComputePipeline | undefined;
  #params: GPUBuffer | undefined;

  constructor(gpu: GpuDevice) {
    this.#gpu = gpu;
  }

  /** Writes bytes that lie within one word. */
  write(memory: GPUBuffer, offset: number, bytes: Uint8Array): void {
    const { device, counts } = this.#gpu;
    const [pipeline, params] = this.#ready();
    const start = Math.floor(offset / WINDOW) * WINDOW;
    let mask = 0;
    let bits = 0;
    bytes.forEach((byte, i) => {
      const shift = 8 * ((offset % 4) + i);
      mask |= 255 << shift;
      bits |= byte << shift;
    });
    const word = Math.floor((offset - start) / 4);
    device.queue.writeBuffer(params, 0, Uint32Array.of(word, mask, bits, 0));
    const group = device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [
        { binding: 0, resource: { buffer: memory, offset: start, size: WINDOW } },
        { binding: 1, resource: { buffer: params } },
      ],
    });
    counts.bindGroups++;
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(1);
    pass.end();
    device.queue.submit([encoder.finish()]);
    counts.submits++;
  }

  #ready(): readonly [GPUComputePipeline, GPUBuffer] {
    const { device } = this.#gpu;
    this.#pipeline ??= device.createComputePipeline({
      layout: "auto",
      compute: { module: device.createShaderModule({ code: SOURCE }), entryPoint: "entry" },
    });
    this.#params ??= this.#gpu.createBuffer(16, UNIFORM_COPY_DST, "patch").buffer;
    return [this.#pipeline, this.#params];
  }

  dispose(): void {
    if (this.#params !== undefined) this.#gpu.destroyBuffer(this.#params);
    this.#params = undefined;
  }
}
