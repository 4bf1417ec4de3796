// Quantising files: the tensors of llama.cpp's own files byte by byte, likelihoods, mixtures, importance, refusals.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { main } from "../ts/cli/main.ts";
import {
  type GgufFile,
  openSource,
  parseGguf,
  type SourceInput,
  type TensorData,
  writeGguf,
} from "../ts/gguf/index.ts";
import { loadModel, quantizeGguf, type QuantizeOptions } from "../ts/llm/index.ts";
import { MIXTURE_NAMES, mixtureOf, type ModelFacts, tensorType } from "../ts/llm/quantize/mixture.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { modelFile } from "./arch/golden.ts";
import { Core, samples, stream } from "./core.ts";
import { dataDir, describeWith, readData, readJson } from "./data.ts";
import { metaMap, spmMeta } from "./meta.ts";

async function quantized(
  input: SourceInput,
  type: string,
  options: QuantizeOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of quantizeGguf(input, type, { nThreads: 1, ...options })) chunks.push(chunk);
  return new Uint8Array(Buffer.concat(chunks));
}

function dataOf(bytes: Uint8Array, file: GgufFile, name: string): Uint8Array {
  const { offset, nBytes } = file.tensorByName.get(name)!;
  return bytes.subarray(offset, offset + nBytes);
}

async function meanNll(bytes: Uint8Array<ArrayBuffer>, text: string): Promise<number> {
  const model = await loadModel(bytes, { nThreads: 1 });
  try {
    return (await model.evaluate(text)).meanNll;
  } finally {
    model.dispose();
  }
}

describeWith("models", "the stories model", () => {
  const f32 = readData("models", "stories260K/stories260K-f32.gguf");

  test.each([
    ["F16", "f16"],
    ["Q8_0", "q8_0"],
    ["Q4_0", "q4_0"],
  ])("%s: every tensor has the type and the bytes of llama.cpp's file", async (type, suffix) => {
    const given = readData("models", `stories260K/stories260K-${suffix}.gguf`);
    const want = parseGguf(given);
    const got = await quantized(f32, type);
    const file = parseGguf(got);
    expect(file.tensors.map((t) => t.name)).toEqual(want.tensors.map((t) => t.name));
    for (const t of want.tensors) {
      expect(file.tensorByName.get(t.name)!.type).toBe(t.type);
      expect(Buffer.compare(dataOf(got, file, t.name), dataOf(given, want, t.name))).toBe(0);
    }
  });

  test("likelihoods are llama.cpp's, and better types lose less than its Q4_0", async () => {
    const reference = readJson<{ nll: readonly { model: string; text: string; mean_nll: number }[] }>(
      "models",
      "stories260K/reference.json",
    );
    const given = (model: string): number => reference.nll.find((n) => n.model === model)!.mean_nll;
    const nllOf = async (type: string): Promise<number> =>
      meanNll(await quantized(f32, type), reference.nll[0]!.text);
    expect(Math.abs((await nllOf("Q8_0")) - given("q8_0"))).toBeLessThan(0.003);
    expect(Math.abs((await nllOf("Q4_0")) - given("q4_0"))).toBeLessThan(0.02);
    const most = given("q4_0") - given("f32");
    for (const type of ["Q5_1", "Q5_0", "Q4_K_M", "Q6_K", "IQ4_NL"])
      expect((await nllOf(type)) - given("f32"), type).toBeLessThan(most);
  });

  test("the command writes the same bytes, and nothing when it fails", async () => {
    const dir = mkdtempSync(join(tmpdir(), "quantize-"));
    const out = join(dir, "out.gguf");
    const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
    const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
    try {
      const from = join(dataDir("models"), "stories260K/stories260K-f32.gguf");
      expect(await main(["quantize", from, out, "Q4_K", "--json", "-t", "1"])).toBe(0);
      const report = JSON.parse(String(log.mock.calls.at(-1)![0])) as { nBytes: number };
      const want = await quantized(f32, "q4_k_m");
      expect(report.nBytes).toBe(want.length);
      expect(Buffer.compare(readFileSync(out), want)).toBe(0);
      const again = join(dir, "again.gguf");
      expect(await main(["quantize", out, again, "Q2_K", "-t", "1"])).toBe(1);
      expect(await main(["quantize", from, again, "Q9_X", "-t", "1"])).toBe(2);
      expect(await main(["quantize", from, again])).toBe(2);
      expect(existsSync(again) || existsSync(`${again}.part`)).toBe(false);
    } finally {
      log.mockRestore();
      error.mockRestore();
      rmSync(dir, { recursive: true });
    }
  });
});

describe("mixtures", () => {
  const model: ModelFacts = {
    arch: "llama",
    nLayer: 32,
    nGqa: 4,
    nExpert: 0,
    hasOutput: true,
    weighed: false,
  };
  const typeOf = (mixture: string, name: string, ne = [4096, 4096], more: Partial<ModelFacts> = {}): string =>
    Type[tensorType({ name, type: Type.F16, ne }, mixtureOf(mixture), { ...model, ...more })]!;

  // What llama.cpp's quantiser prints for a model of 32 layers with grouped queries.
  test.each([
    ["Q4_K_M", "blk.0.attn_v.weight", "Q6_K"],
    ["Q4_K_M", "blk.4.attn_v.weight", "Q4_K"],
    ["Q4_K_M", "blk.6.ffn_down.weight", "Q6_K"],
    ["Q4_K_M", "blk.31.ffn_down.weight", "Q6_K"],
    ["Q4_K_M", "blk.5.ffn_down.weight", "Q4_K"],
    ["Q4_K_M", "blk.5.ffn_up.weight", "Q4_K"],
    ["Q4_K_M", "token_embd.weight", "Q4_K"],
    ["Q4_K_M", "output.weight", "Q6_K"],
    ["Q4_K_S", "blk.3.attn_v.weight", "Q5_K"],
    ["Q4_K_S", "blk.4.ffn_down.weight", "Q4_K"],
    ["Q5_K_M", "blk.0.attn_qkv.weight", "Q6_K"],
    ["Q3_K_M", "blk.1.attn_v.weight", "Q5_K"],
    ["Q3_K_M", "blk.2.attn_output.weight", "Q4_K"],
    ["Q2_K", "blk.9.attn_v.weight", "Q4_K"],
    ["Q2_K", "blk.9.attn_output.weight", "Q3_K"],
    ["Q6_K", "blk.9.ffn_down.weight", "Q6_K"],
    ["Q8_0", "output.weight", "Q8_0"],
    ["Q4_0", "output.weight", "Q6_K"],
    ["IQ4_XS", "blk.9.attn_v.weight", "Q5_K"],
    ["MXFP4_MOE", "blk.9.attn_v.weight", "Q8_0"],
  ])("%s makes %s %s", (mixture, name, want) => {
    expect(typeOf(mixture, name)).toBe(want);
  });

  test("a tied table is the matrix of the logits", () => {
    expect(typeOf("Q4_K_M", "token_embd.weight", [4096, 32000], { hasOutput: false })).toBe("Q6_K");
  });

  test("eight experts have values in eight bits; experts alone are MXFP4", () => {
    expect(typeOf("Q4_K_M", "blk.9.attn_v.weight", [4096, 1024], { nExpert: 8 })).toBe("Q8_0");
    expect(typeOf("MXFP4_MOE", "blk.9.ffn_up_exps.weight", [2880, 2880, 32])).toBe("MXFP4");
  });

  test("rows that are no whole blocks get a type with smaller ones", () => {
    for (const [mixture, want] of [
      ["Q4_K_S", "Q5_0"],
      ["Q5_K_S", "Q5_1"],
      ["Q6_K", "Q8_0"],
      ["Q2_K", "IQ4_NL"],
      ["IQ4_XS", "IQ4_NL"],
      ["Q4_0", "Q4_0"],
    ] as const)
      expect(typeOf(mixture, "blk.20.attn_q.weight", [896, 896])).toBe(want);
    expect(typeOf("Q4_K_M", "blk.20.attn_q.weight", [100, 64])).toBe("F16");
  });

  test("norms, biases, routers and tables of positions stay", () => {
    const kept = ["blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight", "position_embd.weight", "x.bias"];
    for (const name of [...kept, "token_types.weight", "blk.0.shortconv.conv.weight"])
      expect(typeOf("Q8_0", name, [64, 64])).toBe("F16");
    expect(typeOf("Q8_0", "blk.0.attn_sinks.weight", [64])).toBe("F16");
  });

  test("names in any case; the rest is refused with the list", () => {
    for (const name of MIXTURE_NAMES) expect(mixtureOf(name.toLowerCase()).name).toBe(name);
    expect(() => mixtureOf("Q7_K")).toThrow(/Q7_K.*Q4_K_M/);
    expect(() => mixtureOf("__proto__")).toThrow(TypeError);
  });
});

/** A file of one matrix [256, 5] and a stack of two [256, 3, 2]. */
function small(): { bytes: Uint8Array; x: Float32Array; stack: Float32Array } {
  const x = samples(256 * 5, stream(1));
  const stack = samples(256 * 3 * 2, stream(2));
  const tensor = (name: string, ne: number[], data: Float32Array): TensorData => ({
    name,
    type: Type.F32,
    ne,
    data: new Uint8Array(data.buffer),
  });
  const meta = metaMap({ ...spmMeta([]), "general.architecture": "llama", "llama.block_count": 1 });
  const tensors = [
    tensor("blk.0.ffn_up.weight", [256, 5], x),
    tensor("blk.0.ffn_up_exps.weight", [256, 3, 2], stack),
  ];
  return { bytes: writeGguf(meta, tensors), x, stack };
}

function imatrix(sums: Record<string, { values: Float32Array; counts: Float32Array }>): Uint8Array {
  const tensors = Object.entries(sums).flatMap(([name, { values, counts }]): TensorData[] => [
    {
      name: `${name}.in_sum2`,
      type: Type.F32,
      ne: [256, counts.length],
      data: new Uint8Array(values.buffer),
    },
    { name: `${name}.counts`, type: Type.F32, ne: [1, counts.length], data: new Uint8Array(counts.buffer) },
  ]);
  return writeGguf(metaMap({ "general.type": "imatrix" }), tensors);
}

describe("importance", () => {
  let core: Core;
  beforeAll(async () => void (core = await Core.load()));

  test("columns are weighed by the mean square of what they meet, each expert's by its own", async () => {
    const { bytes, x, stack } = small();
    const sums = samples(256, stream(3)).map((v) => 4 * v * v);
    const two = samples(512, stream(4)).map((v) => 9 * v * v);
    const importance = imatrix({
      "blk.0.ffn_up.weight": { values: sums, counts: Float32Array.of(4) },
      "blk.0.ffn_up_exps.weight": { values: two, counts: Float32Array.of(3, 0) },
    });
    const got = await quantized(bytes, "Q4_K", { importance });
    const file = parseGguf(got);
    const rows = (data: Float32Array, from: number, n: number, weights: Float32Array): Uint8Array[] =>
      Array.from({ length: n }, (_, r) =>
        core.quantize(Type.Q4_K, data.slice((from + r) * 256, (from + r + 1) * 256), weights),
      );
    const want = rows(
      x,
      0,
      5,
      sums.map((v) => v / 4),
    );
    expect(Buffer.concat(want)).toEqual(Buffer.from(dataOf(got, file, "blk.0.ffn_up.weight")));
    const ones = new Float32Array(256).fill(1);
    const first = rows(
      stack,
      0,
      3,
      two.slice(0, 256).map((v) => v / 3),
    );
    const stacked = Buffer.concat([...first, ...rows(stack, 3, 3, ones)]);
    expect(stacked).toEqual(Buffer.from(dataOf(got, file, "blk.0.ffn_up_exps.weight")));
  });

  test("one of another size is refused by the tensor's name", async () => {
    const counts = Float32Array.of(1, 1);
    const importance = imatrix({ "blk.0.ffn_up.weight": { values: new Float32Array(512), counts } });
    await expect(quantized(small().bytes, "Q4_K", { importance })).rejects.toMatchObject({
      code: "shape-mismatch",
      details: { tensor: "blk.0.ffn_up.weight" },
    });
  });
});

describe("files", () => {
  test("metadata stays, but for the type's number; the alignment too", async () => {
    const { bytes } = small();
    const file = parseGguf(await quantized(bytes, "Q6_K"));
    expect(file.metadata.get("general.file_type")!.value).toBe(18);
    expect(file.metadata.get("general.quantization_version")!.value).toBe(2);
    for (const [key, value] of parseGguf(bytes).metadata) expect(file.metadata.get(key)).toEqual(value);
  });

  test("what is quantised already is refused unless asked for, and then converted", async () => {
    const once = await quantized(small().bytes, "Q8_0");
    await expect(quantized(once, "Q4_K")).rejects.toMatchObject({
      code: "unsupported-type",
      details: { tensor: "blk.0.ffn_up.weight", actual: "Q8_0" },
    });
    const twice = parseGguf(await quantized(once, "Q4_K_S", { requantize: true }));
    expect(twice.tensors.map((t) => t.type)).toEqual([Type.Q4_K, Type.Q4_K]);
    const back = parseGguf(await quantized(once, "F32", { requantize: true }));
    expect(back.tensors.map((t) => t.type)).toEqual([Type.F32, Type.F32]);
  });

  test("a source that gives less than it is asked for is named, for tensors that are copied too", async () => {
    const { bytes } = small();
    const at = parseGguf(bytes).tensors[0]!.offset;
    const source = await openSource(bytes);
    const read = source.read.bind(source);
    source.read = async (offset, length, signal) =>
      (await read(offset, length, signal)).subarray(0, offset < at ? length : length - 1);
    await expect(quantized(source, "F32")).rejects.toMatchObject({ code: "truncated" });
    await expect(quantized(source, "Q8_0")).rejects.toMatchObject({ code: "truncated" });
  });

  test("a file that ends early is named; a signal ends the work; options are checked", async () => {
    const { bytes } = small();
    const short = { code: "truncated" };
    await expect(quantized(bytes.subarray(0, bytes.length - 4000), "Q8_0")).rejects.toMatchObject(short);
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(quantized(bytes, "Q8_0", { signal })).rejects.toThrow("enough");
    await expect(quantized(bytes, "Q8_0", { pur: true } as QuantizeOptions)).rejects.toThrow(TypeError);
  });

  test("pieces join without a seam, on one thread and on two", async () => {
    // more rows than a piece holds, and not a multiple of them
    const [width, rows] = [4096, 700];
    const data = samples(width * rows, stream(8));
    const meta = metaMap({ "general.architecture": "llama" });
    const tensor = { name: "a.weight", type: Type.F32, ne: [width, rows], data: new Uint8Array(data.buffer) };
    const bytes = writeGguf(meta, [tensor]);
    const one = await quantized(bytes, "Q8_0");
    expect(Buffer.compare(await quantized(bytes, "Q8_0", { nThreads: 2 }), one)).toBe(0);
    const file = parseGguf(one);
    const { blockSize, typeSize } = typeInfo(Type.Q8_0)!;
    const got = dataOf(one, file, "a.weight");
    const core = await Core.load();
    for (const row of [0, 255, 256, 511, 512, 699]) {
      const size = (width / blockSize) * typeSize;
      const want = core.quantize(Type.Q8_0, data.slice(row * width, (row + 1) * width));
      expect(got.subarray(row * size, (row + 1) * size)).toEqual(want);
    }
  });
});

describeWith("golden", "models of other architectures", () => {
  const dir = mkdtempSync(join(tmpdir(), "quantize-"));
  afterAll(() => rmSync(dir, { recursive: true }));

  test.each(["qwen2", "gemma3", "olmoe", "bert-mean", "lfm2", "gpt2"])(
    "%s loads after quantising",
    async (name) => {
      const path = join(dir, `${name}.gguf`);
      writeFileSync(path, await quantized(modelFile(name), "Q8_0"));
      (await loadModel(path, { nThreads: 1 })).dispose();
    },
  );
});
