// WGSL of FLASH_ATTN_EXT. Sizes of rows are written into the source, because arrays depend on them.

import { Type, typeInfo } from "../../types.ts";
import { loadFloat } from "../wgsl/float.ts";
import { MATH } from "../wgsl/math.ts";
import { QUAD_LIB, quadSource } from "../wgsl/quants.ts";
import { LOWEST, SLOPE } from "./soft_max.ts";

/** What a source depends on. */
export interface Shape {
  /** elements of a row of q and k, and of v */
  readonly d: number;
  readonly dv: number;
  /** rows of a workgroup, 1 or 4 */
  readonly rows: number;
  readonly splits: number;
  readonly k: Type;
  readonly v: Type;
  readonly kAligned: boolean;
  readonly vAligned: boolean;
  readonly mask: Type | undefined;
  readonly sinks: boolean;
  readonly length: boolean;
  readonly spans: boolean;
  readonly live: boolean;
  readonly capped: boolean;
  readonly biased: boolean;
  readonly windowed: boolean;
}

const LANES = 64;

const each = (n: number, f: (i: number) => string, separator = " "): string =>
  Array.from({ length: n }, (_, i) => f(i)).join(separator);

/** `a_part(row, q)`: as a_quad, but 0 past `n` elements. */
function partSource(a: string, type: Type, n: number, aligned: boolean): string {
  const { blockSize, typeSize } = typeInfo(type)!;
  const quad = quadSource(a, type, aligned);
  if (n % 4 === 0 || blockSize > 1)
    return `${quad}fn ${a}_part(row: u32, q: u32) -> vec4f { return ${a}_quad(row, q); }`;
  return `${quad}
fn ${a}_part(row: u32, q: u32) -> vec4f {
  if (q < ${Math.floor(n / 4)}u) { return ${a}_quad(row, q); }
  var v = vec4f();
  for (var i = 4u * q; i < ${n}u; i++) { v[i & 3u] = ${loadFloat(a, type, `row + i * ${typeSize}u`)}; }
  return v;
}`;
}

/** How the elements of an accumulator are dealt out. */
function plan({ dv }: Shape): { quads: number; parts: number; perLane: number } {
  const quads = Math.ceil(dv / 4);
  return { quads, parts: Math.max(1, Math.floor(LANES / quads)), perLane: Math.ceil(quads / LANES) };
}

/** Scores and values of the blocks of one split; the result itself when there is but one. */
export function attendSource(s: Shape): string {
  const dq = Math.ceil(s.d / 4);
  const { quads, perLane } = plan(s);
  const V = s.rows === 1 ? "f32" : "vec4f";
  return `
${MATH}${SLOPE}${QUAD_LIB}${partSource("q", Type.F32, s.d, true)}
${partSource("k", s.k, s.d, s.kAligned)}${partSource("v", s.v, s.dv, s.vAligned)}
const ROWS = ${s.rows}u;
var<workgroup> Q: array<vec4f, ${s.rows * dq}>;
var<workgroup> W: array<${V}, ${LANES}>;
var<workgroup> RED: array<${V}, ${LANES}>;
var<workgroup> ACC: array<vec4f, ${LANES}>;
// cells that each row sees, its own cell
var<workgroup> LO: array<i32, ${s.rows}>;
var<workgroup> HI: array<i32, ${s.rows}>;
var<workgroup> OWN: array<i32, ${s.rows}>;
var<workgroup> RANGE: vec2i;
${rangeSource(s)}
${biasSource(s)}
fn all_max(local: u32, x: ${V}) -> ${V} {
  RED[local] = x;
  workgroupBarrier();
  for (var h = ${LANES / 2}u; h > 0u; h >>= 1u) {
    if (local < h) { RED[local] = max(RED[local], RED[local + h]); }
    workgroupBarrier();
  }
  let y = RED[0];
  workgroupBarrier();
  return y;
}
fn all_sum(local: u32, x: ${V}) -> ${V} {
  RED[local] = x;
  workgroupBarrier();
  for (var h = ${LANES / 2}u; h > 0u; h >>= 1u) {
    if (local < h) { RED[local] += RED[local + h]; }
    workgroupBarrier();
  }
  let y = RED[0];
  workgroupBarrier();
  return y;
}
fn main(group: u32, local: u32) {
  let split = group % P.splits;
  let first = group / P.splits % P.row_blocks * ROWS;
  let unit = group / P.splits / P.row_blocks;
  let head = unit % P.heads; let seq = unit / P.heads;
  let count = min(ROWS, P.per_head - first);
  for (var i = local; i < ROWS * ${dq}u; i += ${LANES}u) {
    let r = first + min(i / ${dq}u, count - 1u);
    let at = r / P.group * P.q_nb1 + (head * P.group + r % P.group) * P.q_nb2 + seq * P.q_nb3;
    Q[i] = q_part(at, i % ${dq}u);
  }
  if (local < ROWS) { set_range(local, (first + min(local, count - 1u)) / P.group); }
  workgroupBarrier();
  if (local == 0u) {
    var range = vec2i(0x7fffffff, 0);
    for (var r = 0u; r < ROWS; r++) { if (LO[r] < HI[r]) { range = vec2i(min(range.x, LO[r]), max(range.y, HI[r])); } }
    RANGE = range;
  }
  let range = workgroupUniformLoad(&RANGE);
  let kt = head / P.k_of * P.k_nb2 + seq / P.k_seq * P.k_nb3;
  let vt = head / P.v_of * P.v_nb2 + seq / P.v_seq * P.v_nb3;
  var top = ${V}(${LOWEST});
  var sum = ${V}();
  var acc: array<vec4f, ${s.rows * perLane}>;
  let quad = local % ${quads}u; let part = local / ${quads}u;
  for (var j = i32(u32(max(range.x, 0)) / ${LANES}u + split) * ${LANES}; j < range.y; j += i32(P.splits) * ${LANES}) {
    let cell = j + i32(local);
    var z = ${V}(${LOWEST});
    if (cell >= range.x && cell < range.y) {
      let row = kt + u32(cell) * P.k_nb1;
      var dots = ${V}();
      for (var e = 0u; e < ${dq}u; e++) {
        let x = k_part(row, e);
        dots += ${s.rows === 1 ? "dot(x, Q[e])" : `vec4f(${each(4, (r) => `dot(x, Q[${r * dq}u + e])`, ", ")})`};
      }
      ${each(s.rows, (r) => `z${lane(s, r)} = biased(dots${lane(s, r)}, ${r}u, cell, first, count, head, seq);`, "\n      ")}
    }
    let higher = max(top, all_max(local, z));
    let shrink = exp(max(top - higher, ${V}(-104.0)));
    let w = select(exp(max(z - higher, ${V}(-104.0))), ${V}(), z <= ${V}(${LOWEST}));
    top = higher;
    sum = sum * shrink + w;
    W[local] = w;
    workgroupBarrier();
    ${each(s.rows * perLane, (i) => `acc[${i}] *= shrink${lane(s, Math.floor(i / perLane))};`)}
    let end = u32(min(range.y - j, ${LANES}));
    ${valueLoop(s)}
    workgroupBarrier();
  }
  sum = all_sum(local, sum);
  ${each(s.rows, (r) => finishRow(s, r), "\n  ")}
}
`;
}

/** Component of row r. */
function lane({ rows }: Shape, r: number): string {
  return rows === 1 ? "" : `[${r}]`;
}

// Adds the values of a block's cells, weighted. Invocations share cells where quads are fewer than they.
function valueLoop(s: Shape): string {
  const { quads, parts, perLane } = plan(s);
  const step = (i: number, q: string): string => `
      { let v = v_part(row, ${q}); ${each(s.rows, (r) => `acc[${r * perLane + i}] += W[c]${lane(s, r)} * v;`)} }`;
  const body =
    perLane === 1
      ? step(0, "quad")
      : each(perLane, (i) => `if (local + ${i * LANES}u < ${quads}u) {${step(i, `local + ${i * LANES}u`)} }`);
  const used = perLane === 1 ? `part < ${parts}u` : "true";
  return `if (${used}) {
      for (var c = ${perLane === 1 ? "part" : "0u"}; c < end; c += ${parts}u) {
        if (j + i32(c) < range.x) { continue; }
        let row = vt + u32(j + i32(c)) * P.v_nb1;
        ${body}
      } }`;
}

// Adds up the parts of row r's accumulator and stores it.
function finishRow(s: Shape, r: number): string {
  const { quads, parts, perLane } = plan(s);
  const store = (q: string, y: string): string => `store_row(${q}, ${y}, ${r}u, to${r}, scale${r});`;
  const slot = `((seq * P.tokens + t${r}) * P.heads * P.group + h${r})`;
  const place =
    s.splits === 1
      ? `h${r} * P.y_nb1 + t${r} * P.y_nb2 + seq * P.y_nb3`
      : `(${slot} * P.splits + split) * ${4 * (s.dv + 2)}u`;
  const gather =
    perLane > 1
      ? each(
          perLane,
          (i) =>
            `if (local + ${i * LANES}u < ${quads}u) { ${store(`local + ${i * LANES}u`, `acc[${r * perLane + i}]`)} }`,
        )
      : `ACC[local] = acc[${r}];
  workgroupBarrier();
  if (local < ${quads}u && ${r}u < count) {
    var y = ACC[local];
    for (var p = 1u; p < ${parts}u; p++) { y += ACC[local + p * ${quads}u]; }
    ${store("local", "y")}
  }
  workgroupBarrier();`;
  const guarded = perLane > 1 ? `if (${r}u < count) { ${gather} }` : gather;
  const scale = s.splits === 1 ? scaleSource(s, r) : `let scale${r} = 1.0;`;
  const rest =
    s.splits === 1
      ? ""
      : `if (local == 0u && ${r}u < count) { dst_set_f32(to${r} + ${4 * s.dv}u, top${lane(s, r)}); dst_set_f32(to${r} + ${4 * s.dv + 4}u, sum${lane(s, r)}); }`;
  return `let t${r} = (first + ${r}u) / P.group; let h${r} = head * P.group + (first + ${r}u) % P.group;
  let to${r} = ${place};
  ${scale}
  ${guarded}
  ${rest}`;
}

// What the accumulator is multiplied with: the sink joins the sum. A row that saw nothing is zero.
function scaleSource(s: Shape, r: number): string {
  const [top, sum] = [`top${lane(s, r)}`, `sum${lane(s, r)}`];
  if (!s.sinks) return `let scale${r} = select(1.0 / ${sum}, 0.0, ${sum} == 0.0);`;
  return `let scale${r} = with_sink(${top}, ${sum}, max(sinks_f32(min(h${r}, P.heads * P.group - 1u) * P.sinks_nb0), ${LOWEST}));`;
}

const SINK = `
fn with_sink(top: f32, sum: f32, sink: f32) -> f32 {
  let m = max(top, sink);
  let shrink = exp(max(top - m, -104.0));
  let all = sum * shrink + select(exp(max(sink - m, -104.0)), 0.0, sink <= ${LOWEST});
  return select(shrink / all, 0.0, all == 0.0);
}
`;

// `set_range(r, t)`: cells that token t may see, as assembly/kernels/flash_attn_ext.ts has it.
function rangeSource(s: Shape): string {
  const placed = s.spans
    ? `let at = t * P.spans_nb1;
  lo = max(0, spans_i32(at)); hi = min(cells, spans_i32(at + P.spans_nb0));`
    : s.length
      ? `own = length_i32(P.length_nb0) + i32(t);
  hi = max(0, min(min(cells, length_i32(0u)), own + 1));`
      : "";
  const window = `if (P.both != 0u) { lo = max(lo, own - P.window / 2); hi = min(hi, own + P.window / 2 + 1); }
  else { lo = max(lo, own - (P.window - 1)); }`;
  return `
fn set_range(r: u32, t: u32) {
  let cells = i32(P.cells);
  var lo = 0; var hi = cells; var own = i32(t);
  ${placed}
  ${s.windowed ? window : ""}
  ${s.live ? "if (i32(t) >= live_i32(0u)) { hi = 0; }" : ""}
  LO[r] = lo; HI[r] = hi; OWN[r] = own;
}
fn store_row(q: u32, y: vec4f, r: u32, to: u32, scale: f32) {
  for (var i = 0u; i < min(4u, ${s.dv}u - 4u * q); i++) { dst_set_f32(to + 16u * q + 4u * i, y[i] * scale); }
}
${s.sinks && s.splits === 1 ? SINK : ""}`;
}

// `biased(z, r, cell, ..)`: a product as a score: scaled, capped, masked; the lowest number when hidden.
function biasSource(s: Shape): string {
  const scaled = s.capped ? "P.cap * tanh1(product * (P.scale / P.cap))" : "product * P.scale";
  const size = s.mask === Type.F32 ? 4 : 2;
  const mask =
    s.mask === undefined
      ? ""
      : `let at = u32(cell) * P.mask_nb0 + t * P.mask_nb1 + h % P.mask_ne2 * P.mask_nb2 + seq % P.mask_ne3 * P.mask_nb3;
  let bits = ${size === 4 ? "mask_u32(at)" : "mask_u16(at)"};
  if (bits == ${size === 4 ? "0xff800000u" : "0xfc00u"}) { return ${LOWEST}; }
  z += ${s.biased ? "slope_of(h) * " : ""}${loadFloat("mask", s.mask, "at")};`;
  const distance = s.mask === undefined && s.biased ? "z -= slope_of(h) * f32(abs(cell - OWN[r]));" : "";
  return `
fn biased(product: f32, r: u32, cell: i32, first: u32, count: u32, head: u32, seq: u32) -> f32 {
  if (r >= count || cell < LO[r] || cell >= HI[r]) { return ${LOWEST}; }
  let t = (first + r) / P.group;
  let h = head * P.group + (first + r) % P.group;
  var z = ${scaled};
  ${mask}${distance}
  return z;
}
`;
}

/** Merges the splits of a row. */
export function mergeSource(s: Shape): string {
  const sink = s.sinks ? `let sink = max(sinks_f32(h * P.sinks_nb0), ${LOWEST}); top = max(top, sink);` : "";
  const join = s.sinks ? `sum += select(exp(max(sink - top, -104.0)), 0.0, sink <= ${LOWEST});` : "";
  return `
fn main(group: u32, local: u32) {
  let h = group % P.h; let t = group / P.h % P.n; let seq = group / P.h / P.n;
  let at = group * P.splits * ${4 * (s.dv + 2)}u;
  var top = ${LOWEST};
  for (var i = 0u; i < P.splits; i++) { top = max(top, part_f32(at + i * ${4 * (s.dv + 2)}u + ${4 * s.dv}u)); }
  ${sink}
  var sum = 0.0;
  for (var i = 0u; i < P.splits; i++) {
    let p = at + i * ${4 * (s.dv + 2)}u + ${4 * s.dv}u;
    sum += part_f32(p + 4u) * exp(max(part_f32(p) - top, -104.0));
  }
  ${join}
  let scale = select(1.0 / sum, 0.0, sum == 0.0);
  let to = h * P.y_nb1 + t * P.y_nb2 + seq * P.y_nb3;
  for (var e = local; e < ${s.dv}u; e += ${LANES}u) {
    var y = 0.0;
    for (var i = 0u; i < P.splits; i++) {
      let p = at + i * ${4 * (s.dv + 2)}u;
      y += part_f32(p + 4u * e) * exp(max(part_f32(p + ${4 * s.dv}u) - top, -104.0));
    }
    dst_set_f32(to + 4u * e, y * scale);
  }
}
`;
}
