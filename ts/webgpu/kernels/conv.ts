// IM2COL CONV_2D CONV_2D_DW CONV_TRANSPOSE_1D CONV_TRANSPOSE_2D SSM_CONV: an invocation for each element of the result.
//
// Output o sees image element o s + k d - p; those outside count as zero. With a kernel of F16 the image is
// rounded to F16, except channel by channel.

import type { ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { Type, typeName } from "../../types.ts";
import { type Dispatch, type GpuKernel, i32, nbParams, neParams, u32 } from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat, roundSource, storeFloat } from "../wgsl/float.ts";
import { needsAtomic } from "../wgsl/quantize.ts";
import { isReadable } from "../wgsl/quants.ts";

function supports({ tensor, src }: ProgramNode): boolean {
  return [tensor, src[0]!, src[1]!].every((x) => FLOAT_TYPES.includes(x.type) && isReadable(x));
}

function slots(names: readonly string[], { params }: Tensor): Dispatch["params"] {
  return names.map((name, i) => i32(name, params[i] ?? 0));
}

const STEPS = ["s0", "s1", "p0", "p1", "d0", "d1"];

/** F32 rounded to F16 and back, as a number. */
const HALF = `
fn to_half(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let a = bits & 0x7fffffffu;
  if (a >= 0x7f800000u) { return x; }
  if (a < 0x38800000u) { return round(x * 16777216.0) * 5.9604644775390625e-8; }
  let r = (a + 0xfffu + ((a >> 13u) & 1u)) & 0xffffe000u;
  return bitcast<f32>((bits & 0x80000000u) | select(r, INFINITY, r >= 0x47800000u));
}
var<private> INFINITY: u32 = 0x7f800000u;
`;

interface Conv {
  readonly name: string;
  readonly slots: readonly string[];
  /** statements that add to `y`; x_at() and k_at() read the image and the kernel */
  readonly body: string;
  /** the image stays F32 whatever the kernel */
  readonly exact?: boolean;
}

function conv(what: Conv): GpuKernel {
  return { supports, dispatches: (node) => [dispatch(node, what)] };
}

function dispatch(node: ProgramNode, { name, slots: names, body, exact = false }: Conv): Dispatch {
  const dst = node.tensor;
  const [kernel, image] = [node.src[0]!, node.src[1]!];
  const rounds = !exact && kernel.type === Type.F16 && image.type === Type.F32;
  const x = loadFloat("x", image.type, "at");
  return eachElement(node, {
    label: `${name} ${typeName(kernel.type)} ${typeName(image.type)}`,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "k", of: 0, access: "read" },
      { name: "x", of: 1, access: "read" },
    ],
    params: [
      ...nbParams("dst", dst),
      ...neParams("k", kernel),
      ...nbParams("k", kernel),
      ...neParams("x", image),
      ...nbParams("x", image),
      ...slots(names, dst),
    ],
    functions: `${rounds ? HALF : ""}
fn x_at(at: u32) -> f32 { return ${rounds ? `to_half(${x})` : x}; }
fn k_at(at: u32) -> f32 { return ${loadFloat("k", kernel.type, "at")}; }`,
    body: `
  var y = 0.0;
  ${body}
  dst_set_f32(${address("dst")}, y);`,
  });
}

// Adds one plane of the image at byte `xt` under the filter at byte `kt`.
const WINDOW = `
  for (var ky = 0; ky < i32(P.k_ne1); ky++) {
    let iy = i32(i1) * P.s1 + ky * P.d1 - P.p1;
    if (iy < 0 || iy >= i32(P.x_ne1)) { continue; }
    for (var kx = 0; kx < i32(P.k_ne0); kx++) {
      let ix = i32(i0) * P.s0 + kx * P.d0 - P.p0;
      if (ix < 0 || ix >= i32(P.x_ne0)) { continue; }
      let w = k_at(kt + u32(kx) * P.k_nb0 + u32(ky) * P.k_nb1);
      y += w * x_at(xt + u32(ix) * P.x_nb0 + u32(iy) * P.x_nb1);
    }
  }`;

/** kernel [KW, KH, C, OC], x [W, H, C, N] -> [OW, OH, OC, N] */
export const conv2dKernel: GpuKernel = conv({
  name: "conv_2d",
  slots: STEPS,
  body: `for (var c = 0u; c < P.x_ne2; c++) {
    let kt = c * P.k_nb2 + i2 * P.k_nb3; let xt = c * P.x_nb2 + i3 * P.x_nb3;${WINDOW}
  }`,
});

/** kernel [KW, KH, 1, C], x [W, H, C, N] -> [OW, OH, C, N] */
export const conv2dDwKernel: GpuKernel = conv({
  name: "conv_2d_dw",
  slots: STEPS,
  body: `let kt = i2 * P.k_nb3; let xt = i2 * P.x_nb2 + i3 * P.x_nb3;${WINDOW}`,
  exact: true,
});

// First and last image element whose kernel reaches output o.
const REACH = (o: string, s: string, k: string, x: string, i: string): string => `
  let ${i}_first = u32(max(0, (i32(${o}) - i32(${k}) + ${s}) / ${s}) * i32(${o} + 1u > ${k}));
  let ${i}_end = min(${x}, ${o} / u32(${s}) + 1u);`;

/** kernel [K, OC, C], x [L, C] -> [(L - 1) s + K, OC] */
export const convTranspose1dKernel: GpuKernel = conv({
  name: "conv_transpose_1d",
  slots: ["s"],
  body: `${REACH("i0", "P.s", "P.k_ne0", "P.x_ne0", "i")}
  for (var c = 0u; c < P.x_ne1; c++) {
    for (var i = i_first; i < i_end; i++) {
      y += k_at((i0 - i * u32(P.s)) * P.k_nb0 + i1 * P.k_nb1 + c * P.k_nb2) * x_at(i * P.x_nb0 + c * P.x_nb1);
    }
  }`,
});

/** kernel [KW, KH, OC, C], x [W, H, C, N] -> [(W - 1) s + KW, (H - 1) s + KH, OC, N] */
export const convTranspose2dKernel: GpuKernel = conv({
  name: "conv_transpose_2d",
  slots: ["s"],
  body: `${REACH("i0", "P.s", "P.k_ne0", "P.x_ne0", "i")}${REACH("i1", "P.s", "P.k_ne1", "P.x_ne1", "j")}
  for (var c = 0u; c < P.x_ne2; c++) {
    for (var j = j_first; j < j_end; j++) {
      for (var i = i_first; i < i_end; i++) {
        let kt = (i0 - i * u32(P.s)) * P.k_nb0 + (i1 - j * u32(P.s)) * P.k_nb1 + i2 * P.k_nb2 + c * P.k_nb3;
        y += k_at(kt) * x_at(i * P.x_nb0 + j * P.x_nb1 + c * P.x_nb2 + i3 * P.x_nb3);
      }
    }
  }`,
});

/** x [K - 1 + T, C, S], kernel [K, C] -> [C, T, S] */
export const ssmConvKernel: GpuKernel = {
  supports,
  dispatches({ tensor, src }): Dispatch[] {
    // operands in the order of the convolutions; all columns, live or not
    const [x, kernel] = [src[0]!, src[1]!];
    return [
      eachElement(
        { tensor, src: [x, kernel] },
        {
          label: "ssm_conv",
          bind: [
            { name: "dst", of: "dst", access: "write" },
            { name: "x", of: 0, access: "read" },
            { name: "k", of: 1, access: "read" },
          ],
          params: [
            ...nbParams("dst", tensor),
            ...nbParams("x", x),
            ...nbParams("k", kernel),
            u32("taps", kernel.ne[0]),
          ],
          body: `
  var y = 0.0;
  for (var k = 0u; k < P.taps; k++) {
    y += x_f32((i1 + k) * P.x_nb0 + i0 * P.x_nb1 + i2 * P.x_nb2) * k_f32(k * P.k_nb0 + i0 * P.k_nb1);
  }
  dst_set_f32(${address("dst")}, y);`,
        },
      ),
    ];
  },
};

/** s0 s1 p0 p1 d0 d1 is2D; the kernel (src0) counts for its shape only. */
export const im2colKernel: GpuKernel = {
  supports: ({ tensor, src }) =>
    [tensor, src[1]!].every((x) => FLOAT_TYPES.includes(x.type) && isReadable(x)),
  dispatches: (node) => [im2col(node)],
};

function im2col(node: ProgramNode): Dispatch {
  const dst = node.tensor;
  const [kernel, x] = [node.src[0]!, node.src[1]!];
  const flat = (dst.params[6] ?? 0) === 0;
  // a signal is an image of one line: strides of its channels and batches move up
  const nb = flat ? [x.nb[0], 0, x.nb[1], x.nb[2]] : x.nb;
  return eachElement(node, {
    label: `im2col ${typeName(x.type)} ${typeName(dst.type)}${flat ? " 1d" : ""}`,
    bind: [
      { name: "dst", of: "dst", access: "write", atomic: needsAtomic(dst.type) },
      { name: "x", of: 1, access: "read" },
    ],
    params: [
      ...nbParams("dst", dst),
      ...nb.map((b, i) => u32(`x_nb${i}`, b)),
      u32("kw", kernel.ne[0]),
      u32("kh", flat ? 1 : kernel.ne[1]),
      u32("w", x.ne[0]),
      u32("h", flat ? 1 : x.ne[1]),
      ...slots(STEPS, dst),
    ],
    functions: roundSource(dst.type),
    body: `
  let kx = i0 % P.kw; let ky = i0 / P.kw % P.kh; let c = i0 / P.kw / P.kh;
  let line = ${flat ? "0u" : "i2"}; let batch = ${flat ? "i2" : "i3"};
  let ix = i32(i1) * P.s0 + i32(kx) * P.d0 - P.p0;
  let iy = i32(line) * P.s1 + i32(ky) * P.d1 - P.p1;
  var y = 0.0;
  if (ix >= 0 && ix < i32(P.w) && iy >= 0 && iy < i32(P.h)) {
    y = ${loadFloat("x", x.type, "u32(ix) * P.x_nb0 + u32(iy) * P.x_nb1 + c * P.x_nb2 + batch * P.x_nb3")};
  }
  ${storeFloat("dst", dst.type, address("dst"), "y")}`,
  });
}
