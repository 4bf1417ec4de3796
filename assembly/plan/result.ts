// What a plan came to, in the layout of abi.ts.

import {
  PLAN_BYTES,
  PLAN_COUNT,
  PLAN_LOWER,
  PLAN_LOWER_BOUND,
  PLAN_OFFSET,
  PLAN_OPTIMAL,
  PLAN_OWNER,
  PLAN_PEAK,
  PLAN_SCRATCH,
  PLAN_SUM,
  PLAN_UPPER,
  PLAN_WORK,
} from "../abi";
import { Plan } from "./work";

/** Fills the result block at `r`; `owner` is 0 for a bare list. */
export function report(p: Plan, r: usize, sum: f64, scratch: f64, owner: usize): void {
  store<f64>(r + PLAN_PEAK, p.best);
  store<f64>(r + PLAN_LOWER_BOUND, p.lowerBound);
  store<f64>(r + PLAN_SUM, sum);
  store<f64>(r + PLAN_SCRATCH, scratch);
  store<f64>(r + PLAN_OPTIMAL, p.best <= max(p.lowerBound, p.proved) ? 1 : 0);
  store<f64>(r + PLAN_WORK, p.work);
  store<f64>(r + PLAN_COUNT, f64(p.nList));
  store<f64>(r + PLAN_LOWER, f64(p.lower));
  store<f64>(r + PLAN_UPPER, f64(p.upper));
  store<f64>(r + PLAN_BYTES, f64(p.bytes));
  store<f64>(r + PLAN_OFFSET, f64(p.offset));
  store<f64>(r + PLAN_OWNER, f64(owner));
}
