// Architectures of which there is no golden file: relatives of others, against the reference in double precision.
import { expect, test } from "vitest";
import { loadModel } from "../ts/llm/index.ts";
import { compare, each, extra, norm, type Variant } from "./arch/variant.ts";
import { remake } from "./arch/remake.ts";
import { describeWith } from "./data.ts";

/** The golden file of a relative under another name. */
const renamed = (from: string, to: string, drop?: RegExp): Uint8Array<ArrayBuffer> =>
  remake(from, {}, [], undefined, drop, to);

const commandR = (): Uint8Array<ArrayBuffer> => renamed("cohere2", "command-r");

function neoBert(): Uint8Array<ArrayBuffer> {
  const base = renamed("modern-bert", "neo-bert", /token_embd_norm|^output_norm/);
  const eps = { "neo-bert.attention.layer_norm_rms_epsilon": { f32: 1e-5 } };
  return remake(
    "neo-bert",
    eps,
    [norm("enc.output_norm.weight", 32), norm("blk.0.attn_norm.weight", 32)],
    base,
  );
}

function jinaBertV3(): Uint8Array<ArrayBuffer> {
  const base = renamed("nomic-bert", "jina-bert-v3", /ffn_gate/);
  const biases = each(2, (blk) => [
    extra(`${blk}attn_qkv.bias`, [144]),
    extra(`${blk}attn_output.bias`, [48]),
    extra(`${blk}ffn_up.bias`, [64]),
    extra(`${blk}ffn_down.bias`, [48]),
  ]);
  return remake("jina-bert-v3", {}, biases, base);
}

const RELATIVES: readonly Variant[] = [
  ["command-r", commandR],
  [
    "command-r: queries and keys normed, each head by a row of its own",
    () =>
      remake(
        "command-r",
        {},
        each(4, (blk) => [
          extra(`${blk}attn_q_norm.weight`, [8, 4], 0.4, 1),
          extra(`${blk}attn_k_norm.weight`, [8, 2], 0.4, 1),
        ]),
        commandR(),
      ),
  ],
  ["eurobert", () => renamed("smollm3", "eurobert")],
  ["neo-bert", neoBert],
  ["jina-bert-v3", jinaBertV3],
];

describeWith("golden", "relatives", () => {
  test.each(RELATIVES)("%s", (_, bytes) => compare(bytes()));

  test.each(["mamba", "rwkv6", "t5", "plamo2"])(
    "%s, which is not built, is refused by its name",
    async (name) => {
      const load = loadModel(renamed("smollm3", name), { nThreads: 1 });
      await expect(load).rejects.toMatchObject({
        code: "unsupported-arch",
        message: expect.stringContaining(`"${name}"`) as unknown,
        details: { key: "general.architecture", actual: name },
      });
    },
  );
});
