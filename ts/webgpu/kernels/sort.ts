// ARGMAX ARGSORT TOP_K: indices of rows of F32 by value. NaN after every number, equals by their index.
//
// Values become keys: unsigned numbers that ascend in the order asked for. Sorting: workgroups sort runs of BLOCK, then
// each dispatch merges pairs of runs, an invocation finding the place of its element by bisection of the other run. For
// TOP_K only the first k of each run are kept. Runs lie in scratch, two times [n] per row; the last dispatch writes dst.

import { Op } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { nrows } from "../../shape.ts";
import { Type } from "../../types.ts";
import { type Bind, type Caps, type Dispatch, type GpuKernel, nbParams, u32 } from "../kernel.ts";
import { address } from "../wgsl/elements.ts";
import { isReadable } from "../wgsl/quants.ts";
import { eachRow, lanesFor } from "../wgsl/rows.ts";

const LANES = 64;

function readable({ src }: ProgramNode): boolean {
  return src[0]!.type === Type.F32 && isReadable(src[0]!);
}

// `key_of(x)`: by bits, because comparisons with NaN are left open.
const keySource = (descending: boolean): string => `
fn key_of(bits: u32) -> u32 {
  let a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) { return 0xffffffffu; }
  let up = select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u && a != 0u);
  return ${descending ? "~up" : "up"};
}
`;

/** [n, rows] -> [rows], the first of the largest. */
export const argmaxKernel: GpuKernel = {
  supports: readable,
  dispatches: (node) => [argmax(node)],
};

function argmax(node: ProgramNode): Dispatch {
  const [dst, a] = [node.tensor, node.src[0]!];
  const lanes = lanesFor(a.ne[0]);
  return eachRow(node, {
    label: "argmax",
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "a", of: 0, access: "read" },
    ],
    params: [...nbParams("dst", dst), ...nbParams("a", a)],
    functions: `${keySource(true)}
var<workgroup> KEYS: array<u32, ${lanes}>;
var<workgroup> IDS: array<u32, ${lanes}>;`,
    body: `
  let at = ${address("a", ["0u", "i1", "i2", "i3"])};
  var key = 0xffffffffu;
  var id = min(local, P.n0 - 1u);
  for (var i = local; i < P.n0; i += LANES) {
    let k = key_of(a_u32(at + 4u * i));
    if (k < key) { key = k; id = i; }
  }
  KEYS[local] = key; IDS[local] = id;
  workgroupBarrier();
  for (var h = LANES / 2u; h > 0u; h >>= 1u) {
    if (local < h) {
      let k = KEYS[local + h]; let i = IDS[local + h];
      if (k < KEYS[local] || (k == KEYS[local] && i < IDS[local])) { KEYS[local] = k; IDS[local] = i; }
    }
    workgroupBarrier();
  }
  if (local == 0u) { dst_set_u32(row * P.dst_nb0, IDS[0]); }`,
    ne: a.ne,
    lanes,
  });
}

/** ARGSORT: order in slot 0; TOP_K: as many as the result has. */
export const sortKernel: GpuKernel = {
  supports: readable,
  dispatches: (node, caps) => dispatches(node, caps),
  scratch(node): number {
    const n = node.src[0]!.ne[0];
    return n <= blockOf(n) ? 0 : 8 * n * nrows(node.src[0]!.ne);
  },
};

function blockOf(n: number): number {
  return n <= LANES ? LANES : 256;
}

function dispatches(node: ProgramNode, _caps: Caps): Dispatch[] {
  const n = node.src[0]!.ne[0];
  const block = blockOf(n);
  const list = [blocks(node, block, n <= block)];
  for (let width = block, from = 0; width < n; width *= 2, from ^= 1) {
    list.push(merge(node, width, from, 2 * width >= n));
  }
  return list;
}

function descending({ tensor }: ProgramNode): boolean {
  return tensor.op === Op.TOP_K || tensor.params[0] !== 0;
}

function binds(last: boolean, first: boolean): Bind[] {
  return [
    ...(last ? [{ name: "dst", of: "dst", access: "write" } as const] : []),
    { name: "a", of: 0, access: "read" },
    ...(last && first ? [] : [{ name: "runs", of: "scratch", access: "write" } as const]),
  ];
}

function common({ tensor: dst, src }: ProgramNode): Dispatch["params"] {
  const a = src[0]!;
  return [
    u32("n", a.ne[0]),
    u32("keep", dst.ne[0]),
    u32("ne1", a.ne[1]),
    u32("ne2", a.ne[2]),
    u32("rows", nrows(a.ne)),
    ...nbParams("a", a),
  ];
}

const ROW = `
fn row_of(r: u32) -> u32 { return r % P.ne1 * P.a_nb1 + r / P.ne1 % P.ne2 * P.a_nb2 + r / P.ne1 / P.ne2 * P.a_nb3; }
`;

// Stores index `id` at place `to` of row r: in the result (P.keep to a row), or in half `half` of the scratch.
function store(last: boolean): string {
  if (last)
    return "fn store(r: u32, half: u32, to: u32, id: u32) { dst_set_u32(4u * (r * P.keep + to), id); }";
  return "fn store(r: u32, half: u32, to: u32, id: u32) { runs_set_u32(4u * ((half * P.rows + r) * P.n + to), id); }";
}

// Each invocation counts what stands before its element in a run of `block`.
function blocks(node: ProgramNode, block: number, last: boolean): Dispatch {
  const a = node.src[0]!;
  const runs = Math.ceil(a.ne[0] / block);
  const order = descending(node);
  const label = `sort ${order ? "descending" : "ascending"} ${block}${last ? " last" : ""}`;
  return {
    label,
    key: label,
    bind: binds(last, true),
    params: [...common(node), u32("runs_of_row", runs)],
    groups: runs * nrows(a.ne),
    workgroup: block,
    source: () => `${keySource(order)}${ROW}${store(last)}
var<workgroup> KEYS: array<u32, ${block}>;
fn main(group: u32, local: u32) {
  let r = group / P.runs_of_row;
  let first = group % P.runs_of_row * ${block}u;
  let count = min(P.n - first, ${block}u);
  var key = 0u;
  if (local < count) { key = key_of(a_u32(row_of(r) + 4u * (first + local))); KEYS[local] = key; }
  workgroupBarrier();
  if (local >= count) { return; }
  var to = 0u;
  for (var i = 0u; i < count; i++) {
    let k = KEYS[i];
    to += select(0u, 1u, k < key || (k == key && i < local));
  }
  if (to < P.keep) { store(r, 0u, first + to, first + local); }
}
`,
  };
}

// Runs of `width`, of which the first `keep` are there, become runs of twice that.
function merge(node: ProgramNode, width: number, from: number, last: boolean): Dispatch {
  const a = node.src[0]!;
  const n = a.ne[0];
  const kept = Math.min(width, node.tensor.ne[0]);
  const runs = Math.ceil(n / width);
  const order = descending(node);
  const label = `sort ${order ? "descending" : "ascending"} merge${last ? " last" : ""}`;
  return {
    label,
    key: label,
    bind: binds(last, false),
    params: [
      ...common(node),
      u32("width", width),
      u32("kept", kept),
      u32("runs_of_row", runs),
      u32("side", from),
      u32("total", kept * runs * nrows(a.ne)),
    ],
    groups: Math.ceil((kept * runs * nrows(a.ne)) / LANES),
    workgroup: LANES,
    source: () => mergeSource(order, last),
  };
}

function mergeSource(order: boolean, last: boolean): string {
  return `${keySource(order)}${ROW}${store(last)}
fn id_at(r: u32, i: u32) -> u32 { return runs_u32(4u * ((P.side * P.rows + r) * P.n + i)); }
fn length_of(run: u32) -> u32 { if (run * P.width >= P.n) { return 0u; } return min(P.kept, P.n - run * P.width); }
fn main(group: u32, local: u32) {
  let i = group * ${LANES}u + local;
  if (i >= P.total) { return; }
  let e = i % P.kept;
  let run = i / P.kept % P.runs_of_row;
  let r = i / P.kept / P.runs_of_row;
  if (e >= length_of(run)) { return; }
  let at = row_of(r);
  let id = id_at(r, run * P.width + e);
  let key = key_of(a_u32(at + 4u * id));
  let other = run ^ 1u;
  var low = 0u; var high = length_of(other);
  while (low < high) {                        // elements of the other run that stand before this one
    let middle = (low + high) / 2u;
    let k = key_of(a_u32(at + 4u * id_at(r, other * P.width + middle)));
    if (k < key || (k == key && other < run)) { low = middle + 1u; } else { high = middle; }
  }
  let to = e + low;
  if (to < P.keep) { store(r, P.side ^ 1u, (run & ~1u) * P.width + to, id); }
}
`;
}
