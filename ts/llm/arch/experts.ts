// A mixture of experts: a router scores them for each token, the best few compute, their results are weighed and added.

import { Glu } from "../../../assembly/abi.ts";
import type { Tensor } from "../../graph/tensor.ts";
import type { RoutingParams } from "../params.ts";
import type { Scope } from "./scope.ts";

/**
 * How scores become weights, and what an expert computes. Scores pass through a softmax over all experts when nothing
 * is said, or a sigmoid each, or a softmax over the chosen only ("softmax_weight" in GGUF).
 */
export interface Routing extends Partial<RoutingParams> {
  /** the activation: silu when absent, gelu, or the clamped silu of gpt-oss */
  readonly act?: "silu" | "gelu" | "oai";
}

/** The sum of the weights is not divided by less than this, the least normal number of F16. */
const LEAST_SUM = 2 ** -14;

/** Rows x [E, T] through the experts chosen for each: [E, T]. */
export function experts(scope: Scope, x: Tensor, routing: Routing): Tensor {
  const { g } = scope;
  const [nEmbd, nTokens] = x.ne;
  const { live } = g;
  // A single token has its experts where a batch has its tokens: the live count would be taken for one of them.
  if (nTokens === 1) g.live = undefined;
  const { ids, weights } = route(scope, x, routing); //                          [K, T], [1, K, T]
  const each = g.reshape(x, [nEmbd, 1, nTokens]);
  const h = hidden(scope, each, ids, routing.act ?? "silu"); //                  [F, K, T]
  const y = g.mul(product(scope, "ffn_down_exps", nEmbd, h, ids), weights); //   [E, K, T]
  const sum = added(scope, y);
  g.live = live;
  return sum;
}

// Ids of the chosen experts [K, T], the best first, and their weights [1, K, T].
function route(scope: Scope, x: Tensor, routing: Routing): Chosen {
  const { gating = "softmax", norm, scale = 1 } = routing;
  const { g, p } = scope;
  const nTokens = x.ne[1];
  const scores = scope.linear(x, "ffn_gate_inp", p.nExpert); //                  [X, T]
  const all = gating === "softmax" ? g.softMax(scores) : gating === "sigmoid" ? g.sigmoid(scores) : scores;
  const order = g.argsort(selection(scope, all, routing), "desc"); //                     [X, T]
  const ids = g.view(order, [p.nExpertUsed, nTokens], { nb: [order.nb[1]] });
  let w = g.getRows(g.reshape(all, [1, p.nExpert, nTokens]), ids); //            [1, K, T]
  w = g.reshape(w, [p.nExpertUsed, nTokens]);
  if (gating === "softmax_weight") w = g.softMax(w);
  if (norm === true) w = g.div(w, g.clamp(g.sumRows(w), LEAST_SUM, Infinity));
  if (scale !== 1) w = g.scale(w, scale);
  return { ids, weights: g.reshape(w, [1, p.nExpertUsed, nTokens]) };
}

interface Chosen {
  readonly ids: Tensor;
  readonly weights: Tensor;
}

// What experts are chosen by [X, T]: their scores, moved by a bias where the file has one, in the best groups only.
function selection(scope: Scope, scores: Tensor, { nGroups = 1, nGroupsUsed = 1 }: Routing): Tensor {
  const name = "exp_probs_b.bias";
  const biased = scope.has(name) ? scope.g.add(scores, scope.vector(name, scope.p.nExpert)) : scores;
  return nGroups > 1 ? inBestGroups(scope, biased, nGroups, nGroupsUsed) : biased;
}

// Scores [X, T] with -Infinity outside of the best groups; a group is as good as its two best experts together.
function inBestGroups({ g }: Scope, scores: Tensor, nGroups: number, nUsed: number): Tensor {
  const [nExpert, nTokens] = scores.ne;
  const grouped = g.reshape(scores, [nExpert / nGroups, nGroups, nTokens]); //   [n, G, T]
  const order = g.argsort(grouped, "desc");
  const two = g.view(order, [Math.min(2, nExpert / nGroups), nGroups, nTokens], {
    nb: [order.nb[1], order.nb[2]],
  });
  const each = g.reshape(grouped, [1, nExpert / nGroups, nGroups, nTokens]);
  const best = g.getRows(each, g.cont(two)); //                                  [1, 2, G, T]
  const groups = g.sumRows(g.reshape(best, [two.ne[0], nGroups, nTokens])); //   [1, G, T]
  const byScore = g.argsort(g.reshape(groups, [nGroups, nTokens]), "desc"); //   [G, T]
  const used = g.cont(g.view(byScore, [nUsed, nTokens], { nb: [byScore.nb[1]] }));
  const nowhere = g.fill(grouped, -Infinity);
  return g.reshape(g.setRows(nowhere, g.getRows(grouped, used), used), [nExpert, nTokens]);
}

const GLU = { silu: Glu.SWIGLU, gelu: Glu.GEGLU, oai: Glu.SWIGLU_OAI } as const;

// act(W_gate x) * W_up x, from two matrices or one, or act(W_up x): [F, K, T].
function hidden(scope: Scope, x: Tensor, ids: Tensor, act: keyof typeof GLU): Tensor {
  const { g, p } = scope;
  const fn = GLU[act];
  if (scope.has("ffn_gate_up_exps.weight")) {
    return g.glu(product(scope, "ffn_gate_up_exps", 2 * p.nFfExpert, x, ids), undefined, { fn });
  }
  const up = product(scope, "ffn_up_exps", p.nFfExpert, x, ids);
  if (!scope.has("ffn_gate_exps.weight")) return act === "gelu" ? g.gelu(up) : g.silu(up);
  return g.glu(product(scope, "ffn_gate_exps", p.nFfExpert, x, ids), up, { fn });
}

// W x of each chosen expert, with its bias: [to, K, T].
function product(scope: Scope, name: string, to: number, x: Tensor, ids: Tensor): Tensor {
  const { g, p } = scope;
  const w = scope.matrix(`${name}.weight`, x.ne[0], to, p.nExpert);
  const y = g.mulMatId(w, x, ids).named(scope.prefix + name);
  return scope.has(`${name}.bias`) ? g.addId(y, scope.vector(`${name}.bias`, to, p.nExpert), ids) : y;
}

// Results [E, K, T] of the chosen experts added in their order: [E, T].
function added({ g }: Scope, y: Tensor): Tensor {
  const [nEmbd, nUsed, nTokens] = y.ne;
  const of = (i: number): Tensor => g.view(y, [nEmbd, nTokens], { nb: [y.nb[2]], offset: i * y.nb[1] });
  let sum = of(0);
  for (let i = 1; i < nUsed; i++) sum = g.add(sum, of(i));
  return nUsed === 1 ? g.cont(sum) : sum;
}
