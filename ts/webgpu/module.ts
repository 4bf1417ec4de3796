// WGSL around the body of a kernel: bindings, accessors of its operands, parameters, entry point.
//
// Which operands share a binding is decided by where tensors lie (see plan.ts), so one body gets a module per pattern:
//
//   operands dst src0 src1, src1 a weight     dst src0 in the compute buffer -> M0 read_write, src1 -> M1 read
//   the same in place                         the same pattern: only offsets differ

import type { Bind, Dispatch } from "./kernel.ts";

/** A storage binding of a module. */
export interface Binding {
  readonly writable: boolean;
  /** array<atomic<u32>> */
  readonly atomic: boolean;
}

/** How the operands of a dispatch are bound. */
export interface Pattern {
  /** storage binding of each operand */
  readonly operands: readonly number[];
  readonly bindings: readonly Binding[];
}

/** A pattern for looking at a module: all operands in one buffer, but for what is said of ids. */
export function aloneIn({ bind }: Dispatch): Pattern {
  const isFault = bind.map((b) => b.of === "fault");
  const atomic = bind.some((b, i) => b.atomic === true && !isFault[i]);
  const bindings = [
    { writable: true, atomic },
    { writable: true, atomic: true },
  ];
  return { operands: isFault.map(Number), bindings };
}

/** Words of a parameter slot: dynamic offsets of uniforms are multiples of 256 bytes. */
export const SLOT_WORDS = 64;

/** Text that tells patterns apart. */
export function patternKey({ operands, bindings }: Pattern): string {
  return `${operands.join("")} ${bindings.map((b) => (b.atomic ? "a" : b.writable ? "w" : "r")).join("")}`;
}

/** The slot of a dispatch: groups, where each operand begins in its binding (bytes), the parameters. */
export function packSlot(dispatch: Dispatch, starts: readonly number[], slot: DataView): void {
  slot.setUint32(0, dispatch.groups, true);
  starts.forEach((start, i) => slot.setUint32(4 + 4 * i, start, true));
  let at = 4 + 4 * starts.length;
  for (const { type, value } of dispatch.params) {
    if (type === "f32") slot.setFloat32(at, value, true);
    else if (type === "i32") slot.setInt32(at, value, true);
    else slot.setUint32(at, value, true);
    at += 4;
  }
}

/** Dispatches that may run as one, at most. */
export const MAX_JOBS = 4;

/**
 * The whole module; its entry point is `entry`. With more than one job it runs as many dispatches, whose slots stand one
 * after the other: their workgroups are numbered through.
 */
export function moduleSource(dispatch: Dispatch, pattern: Pattern, jobs = 1): string {
  const body = dispatch.source();
  const { enable = [], workgroup } = dispatch;
  const subgroups = enable.includes("subgroups");
  const builtins = [
    "@builtin(workgroup_id) id: vec3u",
    "@builtin(num_workgroups) count: vec3u",
    "@builtin(local_invocation_index) local: u32",
    ...(subgroups ? ["@builtin(subgroup_size) size: u32", "@builtin(subgroup_invocation_id) lane: u32"] : []),
  ];
  const accessors = dispatch.bind.map((b, i) => operandAccessors(b, pattern, i, body));
  return `${enable.map((e) => `enable ${e};\n`).join("")}
struct Params { ${jobs > 1 ? "@align(256) " : ""}${["groups_", ...dispatch.bind.map((b) => `at_${b.name}`)].map((n) => `${n}: u32, `).join("")}
  ${dispatch.params.map((p) => `${p.name}: ${p.type}`).join(", ")} }
${
  jobs > 1
    ? `@group(0) @binding(0) var<uniform> JOBS: array<Params, ${jobs}>;
var<private> P: Params;`
    : "@group(0) @binding(0) var<uniform> P: Params;"
}
${pattern.bindings.map(binding).join("\n")}
${subgroups ? "var<private> sg_size: u32;\nvar<private> sg_lane: u32;\n" : ""}${accessors.join("")}${body}
@compute @workgroup_size(${workgroup}) fn entry(${builtins.join(", ")}) {
  ${jobs > 1 ? jobStart(jobs) : "let group = id.x + id.y * count.x;\n  if (group >= P.groups_) { return; }"}
  ${subgroups ? "sg_size = size; sg_lane = lane;\n  " : ""}main(group, local);
}
`;
}

// The job that a workgroup belongs to: uniform, because all of it comes from the slots and the number of the group.
function jobStart(jobs: number): string {
  const skip = (j: number): string =>
    j === jobs - 1
      ? ""
      : `if (group >= JOBS[${j}].groups_) { group -= JOBS[${j}].groups_; job = ${j + 1}u; ${skip(j + 1)}}`;
  return `var group = id.x + id.y * count.x; var job = 0u;
  ${skip(0)}
  if (group >= JOBS[job].groups_) { return; }
  P = JOBS[job];`;
}

function binding({ writable, atomic }: Binding, index: number): string {
  const access = writable ? "read_write" : "read";
  return `@group(1) @binding(${index}) var<storage, ${access}> M${index}: array<${atomic ? "atomic<u32>" : "u32"}>;`;
}

// Accessors in the order in which they use each other; a body gets those that it calls, and what these call.
function operandAccessors({ name, of, access }: Bind, pattern: Pattern, i: number, body: string): string {
  const index = pattern.operands[i]!;
  if (of === "fault") return faultReport(name, `M${index}`);
  const { atomic } = pattern.bindings[index]!;
  const memory = `M${index}`;
  const all = [
    ...readers(name, (w) => (atomic ? `atomicLoad(&${memory}[${w}])` : `${memory}[${w}]`)),
    ...(access === "write" ? writers(name, memory, atomic) : []),
  ];
  const used: string[] = [];
  let text = body;
  for (const [fn, source] of all.reverse()) {
    if (!new RegExp(`\\b${name}_${fn}\\b`).test(text)) continue;
    used.unshift(source);
    text += source;
  }
  return used.map((s) => `${s}\n`).join("");
}

// The cell is at the start of its binding; what other operands have as their place is the number of the node.
function faultReport(name: string, cell: string): string {
  return `fn ${name}_report(id: u32) { if (atomicMax(&${cell}[0], P.at_${name}) < P.at_${name}) { atomicStore(&${cell}[1], id); } }\n`;
}

type Accessor = readonly [suffix: string, source: string];

function readers(a: string, load: (word: string) => string): Accessor[] {
  return [
    ["u32", `fn ${a}_u32(b: u32) -> u32 { return ${load(`(P.at_${a} + b) >> 2u`)}; }`],
    ["i32", `fn ${a}_i32(b: u32) -> i32 { return bitcast<i32>(${a}_u32(b)); }`],
    ["f32", `fn ${a}_f32(b: u32) -> f32 { return bitcast<f32>(${a}_u32(b)); }`],
    [
      "word",
      `fn ${a}_word(b: u32) -> u32 { let at = P.at_${a} + b; let i = at >> 2u; let s = (at & 3u) * 8u;
  let lo = ${load("i")}; let hi = ${load("i + 1u")}; return select(lo, (lo >> s) | (hi << (32u - s)), s != 0u); }`,
    ],
    [
      "u16",
      `fn ${a}_u16(b: u32) -> u32 { let at = P.at_${a} + b; return (${load("at >> 2u")} >> ((at & 2u) * 8u)) & 0xffffu; }`,
    ],
    [
      "u8",
      `fn ${a}_u8(b: u32) -> u32 { let at = P.at_${a} + b; return (${load("at >> 2u")} >> ((at & 3u) * 8u)) & 0xffu; }`,
    ],
    ["f16", f16Reader(a)],
    ["bf16", `fn ${a}_bf16(b: u32) -> f32 { return bitcast<f32>(${a}_u16(b) << 16u); }`],
  ];
}

// By integers: unpack2x16float may flush subnormals.
function f16Reader(a: string): string {
  return `fn ${a}_f16(b: u32) -> f32 { let h = ${a}_u16(b); let sign = (h & 0x8000u) << 16u; let e = (h >> 10u) & 31u; let m = h & 0x3ffu;
  let small = bitcast<u32>(f32(m) * 5.9604644775390625e-8);
  let bits = select(select((h & 0x7fffu) << 13u, ((h & 0x7fffu) << 13u) + 0x38000000u, e < 31u), small, e == 0u);
  return bitcast<f32>(sign | select(bits, (m << 13u) | 0x7f800000u, e == 31u)); }`;
}

function writers(a: string, memory: string, atomic: boolean): Accessor[] {
  const store = atomic ? `atomicStore(&${memory}[i], v)` : `${memory}[i] = v`;
  const part = atomic
    ? `atomicAnd(&${memory}[i], ~(mask << s)); atomicOr(&${memory}[i], (v & mask) << s);`
    : `${memory}[i] = (${memory}[i] & ~(mask << s)) | ((v & mask) << s);`;
  return [
    ["set_u32", `fn ${a}_set_u32(b: u32, v: u32) { let i = (P.at_${a} + b) >> 2u; ${store}; }`],
    ["set_i32", `fn ${a}_set_i32(b: u32, v: i32) { ${a}_set_u32(b, bitcast<u32>(v)); }`],
    ["set_f32", `fn ${a}_set_f32(b: u32, v: f32) { ${a}_set_u32(b, bitcast<u32>(v)); }`],
    [
      "set_part",
      `fn ${a}_set_part(b: u32, v: u32, mask: u32) { let at = P.at_${a} + b; let i = at >> 2u; let s = (at & 3u) * 8u; ${part} }`,
    ],
    ["set_u16", `fn ${a}_set_u16(b: u32, v: u32) { ${a}_set_part(b, v, 0xffffu); }`],
    ["set_u8", `fn ${a}_set_u8(b: u32, v: u32) { ${a}_set_part(b, v, 0xffu); }`],
  ];
}
