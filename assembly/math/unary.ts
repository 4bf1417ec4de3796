// The elementwise functions of one argument, each a class without state: loops are generic over them and call
// `changetype<F>(<usize>0).apply(x, pp)`, which compiles to the function's own instructions.
//
// `x` are four f32; `pp` is the address of the function's f32 parameters.

import { expm14, exp4, gelu4, geluErf4, geluQuick4, mulAdd, sigmoid4, silu4, softplus4, tanh4 } from "./exp";
import { roundAway4 } from "./round";
import { cos4, log4, sin4 } from "./trig";


@unmanaged
export class Abs {

  @inline
  apply(x: v128, pp: usize): v128 {
    return f32x4.abs(x);
  }
}

/** -1, 0 or 1 */
@unmanaged
export class Sgn {

  @inline
  apply(x: v128, pp: usize): v128 {
    const zero = f32x4.splat(0);
    return f32x4.convert_i32x4_s(i32x4.sub(f32x4.lt(x, zero), f32x4.gt(x, zero)));
  }
}


@unmanaged
export class Neg {

  @inline
  apply(x: v128, pp: usize): v128 {
    return f32x4.neg(x);
  }
}

/** 1 above 0, else 0 */
@unmanaged
export class Step {

  @inline
  apply(x: v128, pp: usize): v128 {
    return v128.and(f32x4.gt(x, f32x4.splat(0)), f32x4.splat(1));
  }
}


@unmanaged
export class Tanh {

  @inline
  apply(x: v128, pp: usize): v128 {
    return tanh4(x);
  }
}

/** x above 0, else e^x - 1 */
@unmanaged
export class Elu {

  @inline
  apply(x: v128, pp: usize): v128 {
    return v128.bitselect(x, expm14(x), f32x4.gt(x, f32x4.splat(0)));
  }
}


@unmanaged
export class Relu {

  @inline
  apply(x: v128, pp: usize): v128 {
    return v128.and(x, f32x4.gt(x, f32x4.splat(0)));
  }
}


@unmanaged
export class Sigmoid {

  @inline
  apply(x: v128, pp: usize): v128 {
    return sigmoid4(x);
  }
}


@unmanaged
export class Gelu {

  @inline
  apply(x: v128, pp: usize): v128 {
    return gelu4(x);
  }
}


@unmanaged
export class GeluQuick {

  @inline
  apply(x: v128, pp: usize): v128 {
    return geluQuick4(x);
  }
}


@unmanaged
export class Silu {

  @inline
  apply(x: v128, pp: usize): v128 {
    return silu4(x);
  }
}

/** (x + 3) / 6 between 0 and 1 */
@unmanaged
export class HardSigmoid {

  @inline
  apply(x: v128, pp: usize): v128 {
    const y = f32x4.div(f32x4.add(x, f32x4.splat(3)), f32x4.splat(6));
    return f32x4.min(f32x4.splat(1), f32x4.max(f32x4.splat(0), y));
  }
}


@unmanaged
export class HardSwish {

  @inline
  apply(x: v128, pp: usize): v128 {
    return f32x4.mul(x, changetype<HardSigmoid>(<usize>0).apply(x, pp));
  }
}


@unmanaged
export class Exp {

  @inline
  apply(x: v128, pp: usize): v128 {
    return exp4(x);
  }
}


@unmanaged
export class Expm1 {

  @inline
  apply(x: v128, pp: usize): v128 {
    return expm14(x);
  }
}


@unmanaged
export class Softplus {

  @inline
  apply(x: v128, pp: usize): v128 {
    return softplus4(x);
  }
}


@unmanaged
export class GeluErf {

  @inline
  apply(x: v128, pp: usize): v128 {
    return geluErf4(x);
  }
}

/** Parameters alphaN, alphaP, beta, eps. Above 0: alphaP x^2 + beta x; else (expm1(min(x, eps)) - x) alphaN + beta x. */
@unmanaged
export class Xielu {

  @inline
  apply(x: v128, pp: usize): v128 {
    const linear = f32x4.mul(v128.load32_splat(pp, 8), x);
    const above = mulAdd(v128.load32_splat(pp, 4), f32x4.mul(x, x), linear);
    const m = f32x4.sub(expm14(f32x4.min(x, v128.load32_splat(pp, 12))), x);
    const below = mulAdd(m, v128.load32_splat(pp), linear);
    return v128.bitselect(above, below, f32x4.gt(x, f32x4.splat(0)));
  }
}


@unmanaged
export class Floor {

  @inline
  apply(x: v128, pp: usize): v128 {
    return f32x4.floor(x);
  }
}


@unmanaged
export class Ceil {

  @inline
  apply(x: v128, pp: usize): v128 {
    return f32x4.ceil(x);
  }
}

/** half away from zero */
@unmanaged
export class Round {

  @inline
  apply(x: v128, pp: usize): v128 {
    return roundAway4(x);
  }
}


@unmanaged
export class Trunc {

  @inline
  apply(x: v128, pp: usize): v128 {
    return f32x4.trunc(x);
  }
}


@unmanaged
export class Sqr {

  @inline
  apply(x: v128, pp: usize): v128 {
    return f32x4.mul(x, x);
  }
}


@unmanaged
export class Sqrt {

  @inline
  apply(x: v128, pp: usize): v128 {
    return f32x4.sqrt(x);
  }
}


@unmanaged
export class Log {

  @inline
  apply(x: v128, pp: usize): v128 {
    return log4(x);
  }
}


@unmanaged
export class Sin {

  @inline
  apply(x: v128, pp: usize): v128 {
    return sin4(x);
  }
}


@unmanaged
export class Cos {

  @inline
  apply(x: v128, pp: usize): v128 {
    return cos4(x);
  }
}

/** Parameters s, b: s x + b */
@unmanaged
export class Scale {

  @inline
  apply(x: v128, pp: usize): v128 {
    return mulAdd(x, v128.load32_splat(pp), v128.load32_splat(pp, 4));
  }
}

/** Parameters min, max. NaN stays NaN. */
@unmanaged
export class Clamp {

  @inline
  apply(x: v128, pp: usize): v128 {
    return f32x4.pmax(f32x4.pmin(x, v128.load32_splat(pp, 4)), v128.load32_splat(pp));
  }
}

/** Parameter slope: x above 0, else slope x */
@unmanaged
export class LeakyRelu {

  @inline
  apply(x: v128, pp: usize): v128 {
    return v128.bitselect(f32x4.mul(x, v128.load32_splat(pp)), x, f32x4.lt(x, f32x4.splat(0)));
  }
}

/** Parameter c: c, whatever x */
@unmanaged
export class Fill {

  @inline
  apply(x: v128, pp: usize): v128 {
    return v128.load32_splat(pp);
  }
}
