// UPSCALE: an image in another size, F32, any strides; formulas as in assembly/kernels/upscale.ts.

import type { ProgramNode } from "../../graph/program.ts";
import { type Dispatch, f32, type GpuKernel, nbParams, neParams } from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { isReadable } from "../wgsl/quants.ts";

const BILINEAR = 1;
const BICUBIC = 2;
const ALIGN_CORNERS = 256;
const ANTIALIAS = 512;

/** Mode and flags in slot 0. */
export const upscaleKernel: GpuKernel = {
  supports: ({ tensor, src }) => [tensor, src[0]!].every(isReadable),
  dispatches: (node) => [dispatch(node)],
};

function dispatch(node: ProgramNode): Dispatch {
  const [dst, x] = [node.tensor, node.src[0]!];
  const flags = dst.params[0]!;
  const aligned = (flags & ALIGN_CORNERS) !== 0;
  const factor = (d: 0 | 1): number => {
    const [out, inner] = [dst.ne[d], x.ne[d]];
    return aligned && out > 1 && inner > 1 ? (out - 1) / (inner - 1) : out / inner;
  };
  const mode = flags & 255;
  const name =
    mode === BICUBIC
      ? "bicubic"
      : mode !== BILINEAR
        ? "nearest"
        : (flags & ANTIALIAS) !== 0
          ? "smooth"
          : "bilinear";
  return eachElement(node, {
    label: `upscale ${name}`,
    bind: [
      { name: "dst", of: "dst", access: "write" },
      { name: "x", of: 0, access: "read" },
    ],
    params: [
      ...nbParams("dst", dst),
      ...neParams("x", x),
      ...nbParams("x", x),
      f32("f0", factor(0)),
      f32("f1", factor(1)),
      f32("f2", dst.ne[2] / x.ne[2]),
      f32("f3", dst.ne[3] / x.ne[3]),
      f32("off", aligned ? 0 : 0.5),
    ],
    functions: `${PIXEL}${SOURCES[name]}`,
    body: `
  let at = nearest(i2, P.f2, P.x_ne2) * P.x_nb2 + nearest(i3, P.f3, P.x_ne3) * P.x_nb3;
  dst_set_f32(${address("dst")}, sample(at, i0, i1));`,
  });
}

const PIXEL = `
fn nearest(i: u32, f: f32, n: u32) -> u32 { return min(n - 1u, u32(floor(f32(i) / f))); }
// coordinates outside take the edge
fn pixel(at: u32, i: i32, j: i32) -> f32 {
  let u = u32(clamp(i, 0, i32(P.x_ne0) - 1)); let v = u32(clamp(j, 0, i32(P.x_ne1) - 1));
  return x_f32(at + u * P.x_nb0 + v * P.x_nb1);
}
fn place(i: u32, f: f32) -> f32 { return (f32(i) + P.off) / f - P.off; }
`;

const SOURCES: { readonly [name: string]: string } = {
  nearest: `
fn sample(at: u32, i0: u32, i1: u32) -> f32 {
  return pixel(at, i32(nearest(i0, P.f0, P.x_ne0)), i32(nearest(i1, P.f1, P.x_ne1)));
}`,
  bilinear: `
fn sample(at: u32, i0: u32, i1: u32) -> f32 {
  let u = place(i0, P.f0); let v = place(i1, P.f1);
  let i = i32(floor(u)); let j = i32(floor(v));
  let s = clamp(u - f32(clamp(i, 0, i32(P.x_ne0) - 1)), 0.0, 1.0);
  let t = clamp(v - f32(clamp(j, 0, i32(P.x_ne1) - 1)), 0.0, 1.0);
  let top = pixel(at, i, j) * (1.0 - s) + pixel(at, i + 1, j) * s;
  let bottom = pixel(at, i, j + 1) * (1.0 - s) + pixel(at, i + 1, j + 1) * s;
  return top * (1.0 - t) + bottom * t;
}`,
  bicubic: `
// weights of the neighbours at distances t + 1, t, 1 - t, 2 - t: Keys' kernel with a = -3/4
fn inner(t: f32) -> f32 { return (1.25 * t - 2.25) * t * t + 1.0; }
fn outer(t: f32) -> f32 { return ((-0.75 * t + 3.75) * t - 6.0) * t + 3.0; }
fn line(at: u32, i: i32, t: f32, j: i32) -> f32 {
  return pixel(at, i - 1, j) * outer(t + 1.0) + pixel(at, i, j) * inner(t)
    + pixel(at, i + 1, j) * inner(1.0 - t) + pixel(at, i + 2, j) * outer(2.0 - t);
}
fn sample(at: u32, i0: u32, i1: u32) -> f32 {
  let u = place(i0, P.f0); let v = place(i1, P.f1);
  let i = i32(floor(u)); let j = i32(floor(v));
  let s = u - floor(u); let t = v - floor(v);
  return line(at, i, s, j - 1) * outer(t + 1.0) + line(at, i, s, j) * inner(t)
    + line(at, i, s, j + 1) * inner(1.0 - t) + line(at, i, s, j + 2) * outer(2.0 - t);
}`,
  smooth: `
// weighted mean under a tent that widens as the image shrinks
fn sample(at: u32, i0: u32, i1: u32) -> f32 {
  let r0 = max(1.0, 1.0 / P.f0); let r1 = max(1.0, 1.0 / P.f1);
  let u = (f32(i0) + P.off) / P.f0; let v = (f32(i1) + P.off) / P.f1;
  let right = min(i32(P.x_ne0), i32(u + r0 + P.off)); let bottom = min(i32(P.x_ne1), i32(v + r1 + P.off));
  var y = 0.0; var sum = 0.0;
  for (var j = max(0, i32(v - r1 + P.off)); j < bottom; j++) {
    let wy = max(0.0, 1.0 - abs((f32(j) - v + P.off) / r1));
    for (var i = max(0, i32(u - r0 + P.off)); i < right; i++) {
      let w = wy * max(0.0, 1.0 - abs((f32(i) - u + P.off) / r0));
      y += pixel(at, i, j) * w;
      sum += w;
    }
  }
  return select(0.0, y / sum, sum > 0.0);
}`,
};
