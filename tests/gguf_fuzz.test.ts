// Seeded mutation fuzz of the reader. FUZZ_RUNS and FUZZ_SEED widen it.
import { expect, it } from "vitest";
import { parseGguf } from "../ts/gguf/index.ts";
import { Type } from "../ts/types.ts";
import { RawGguf } from "./gguf_bytes.ts";
import { misbehaviour } from "./gguf_consistent.ts";

const RUNS = Number(process.env.FUZZ_RUNS ?? 1500);
const SEED = Number(process.env.FUZZ_SEED ?? 1);

/** mulberry32: the same numbers everywhere. */
function randomOf(seed: number): (below: number) => number {
  let state = seed | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/** Values at which lengths, counts, types and offsets go wrong. */
const EDGES = [
  0n, 1n, 2n, 3n, 7n, 8n, 9n, 12n, 13n, 31n, 32n, 33n, 42n, 43n, 64n, 65n, 255n, 65535n, 65536n, 2n ** 29n, 2n ** 30n,
  2n ** 31n - 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 32n + 4n, 2n ** 53n, 2n ** 61n, 2n ** 62n, 2n ** 63n - 1n,
  2n ** 63n, 2n ** 64n - 32n, 2n ** 64n - 1n,
]; // prettier-ignore

/** A file with a bit of everything. */
function seedFile(): Uint8Array<ArrayBuffer> {
  const head = new RawGguf().start(4, 9).keyU32("general.alignment", 32).str("s").u32(8).str("text");
  head.str("b").u32(7).u8(1).str("u").u32(10).u64(5).str("f").u32(6).u32(0x3f800000);
  head.str("as").u32(9).u32(8).u64(3).str("a").str("").str("ccc");
  head.str("ai").u32(9).u32(5).u64(4).zeros(16).str("ab").u32(9).u32(7).u64(2).u8(0, 1);
  head.str("aa").u32(9).u32(9).u64(2).u32(0).u64(2).u8(1, 2).u32(9).u64(1).u32(4).u64(0);
  head.tensor("w", [32, 2], Type.Q8_0, 0).tensor("x", [3, 1, 2], Type.F16, 96).tensor("y", [], Type.F32, 128);
  head.tensor("z", [0, 7], Type.I64, 160);
  return head.pad().zeros(160).bytes();
}

type Mutation = (
  bytes: Uint8Array<ArrayBuffer>,
  random: (below: number) => number,
) => Uint8Array<ArrayBuffer>;

const MUTATIONS: readonly Mutation[] = [
  (bytes, random) => {
    bytes[random(bytes.length)] = random(256);
    return bytes;
  },
  (bytes, random) => {
    bytes[random(bytes.length)]! ^= 1 << random(8);
    return bytes;
  },
  (bytes, random) => {
    const at = random(bytes.length - 8);
    new DataView(bytes.buffer).setBigUint64(at, EDGES[random(EDGES.length)]!, true);
    return bytes;
  },
  (bytes, random) => {
    const at = random(bytes.length - 4);
    new DataView(bytes.buffer).setUint32(at, Number(EDGES[random(EDGES.length)]! & 0xffffffffn), true);
    return bytes;
  },
  (bytes, random) => bytes.slice(0, 16 + random(bytes.length - 16)),
  (bytes, random) => {
    const [at, n] = [random(bytes.length), random(40)];
    return join(bytes.subarray(0, at), bytes.subarray(at, at + n), bytes.subarray(at));
  },
  (bytes, random) => {
    const at = random(bytes.length);
    return join(bytes.subarray(0, at), bytes.subarray(at + random(40)), new Uint8Array(16));
  },
];

function join(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

it(`survives ${RUNS} mutated files from seed ${SEED}`, () => {
  const random = randomOf(SEED);
  const seed = seedFile();
  expect(parseGguf(seed).tensors.length).toBe(4);
  const buffers = (): number => process.memoryUsage().arrayBuffers;
  for (let i = 0; i < RUNS; i++) {
    let bytes: Uint8Array<ArrayBuffer> = seed.slice();
    for (let n = 1 + random(4); n > 0; n--) bytes = MUTATIONS[random(MUTATIONS.length)]!(bytes, random);
    const before = buffers();
    const found = misbehaviour(bytes);
    if (found !== undefined) expect.fail(`run ${i}: ${found}\n${Buffer.from(bytes).toString("hex")}`);
    expect(buffers() - before).toBeLessThan(4 * bytes.length + 2 ** 20);
  }
});
