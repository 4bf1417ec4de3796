// Which backend runs which node: the cheapest way through the nodes in their order.
//
//   fixed      pins, memory that exists, nodes that read or write large weights
//   allowed    backends with a kernel for the node and for all that must be with it
//   cheapest   shortest path over (node, backend): time of the node there, and a wait whenever others need what a device
//              computed. At the end the wait is free: whoever asked for a device waits for its result anyhow.
//
// A backend of higher preference counts as at least as fast as the CPU: somebody asked for it.
//
// So a graph that one device can run as a whole runs there; an operator unknown to the device in the middle of each layer
// costs one wait a layer, and layers that gain less than that move to the CPU as a whole.

import type { Program, ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import type { Backend } from "../backend.ts";
import { cpuMs, isPureView } from "./costs.ts";
import { type Demands, FREE, Things } from "./things.ts";

// Of paths as fast as each other the one with fewest splits.
const TIE = 1e-9;

/** Backend index of each tensor that has memory of its own. */
export type Assignment = ReadonlyMap<Tensor, number>;

/**
 * Assigns every leaf and node.
 *
 * @throws {GraphError} unsupported-op, bad-plan
 */
export function assign(program: Program, backends: readonly Backend[], demands: Demands): Assignment {
  const things = new Things(program, backends, demands);
  const nodes = program.nodes.filter((n) => !isPureView(n));
  // A group that the path divides goes where most of its time is; then the path is sought again.
  for (;;) {
    const path = cheapestPath(nodes, backends, things);
    const divided = settleGroups(nodes, path, backends, things);
    if (!divided) return collect(program, nodes, path, backends, things);
  }
}

// Values are ms so far, by the backend of the last node.
function cheapestPath(nodes: readonly ProgramNode[], backends: readonly Backend[], things: Things): number[] {
  const nB = backends.length;
  let cost = new Float64Array(nB);
  const from: Int32Array[] = [];
  nodes.forEach((node, i) => {
    const group = things.groupOf(node.tensor);
    const ms = cpuMs(node);
    const next = new Float64Array(nB).fill(Infinity);
    const came = new Int32Array(nB);
    for (let b = 0; b < nB; b++) {
      if (!things.allows(group, b)) continue;
      const here = ms / Math.max(1, backends[b]!.costs.speed);
      for (let a = 0; a < nB; a++) {
        const trip = i > 0 && a !== b ? TIE + backends[a]!.costs.roundTripMs : 0;
        const total = cost[a]! + here + trip;
        if (total < next[b]!) [next[b], came[b]] = [total, a];
      }
    }
    cost = next;
    from.push(came);
  });
  let last = cost.indexOf(Math.min(...cost));
  const path: number[] = [];
  for (let i = nodes.length - 1; i >= 0; i--) {
    path[i] = last;
    last = from[i]![last]!;
  }
  return path;
}

// Fixes groups that lie on several backends. True when there was one.
function settleGroups(
  nodes: readonly ProgramNode[],
  path: readonly number[],
  backends: readonly Backend[],
  things: Things,
): boolean {
  const shares = new Map<number, Float64Array>();
  nodes.forEach((node, i) => {
    const group = things.groupOf(node.tensor);
    const share = shares.get(group) ?? new Float64Array(backends.length);
    share[path[i]!]! += cpuMs(node) + 1e-9;
    shares.set(group, share);
  });
  let divided = false;
  for (const [group, share] of shares) {
    if (share.filter((ms) => ms > 0).length < 2) continue;
    things.fix(group, share.indexOf(Math.max(...share)));
    divided = true;
  }
  return divided;
}

function collect(
  program: Program,
  nodes: readonly ProgramNode[],
  path: readonly number[],
  backends: readonly Backend[],
  things: Things,
): Assignment {
  const ofGroup = new Map<number, number>();
  const readers = new Map<number, Set<number>>();
  nodes.forEach((node, i) => {
    ofGroup.set(things.groupOf(node.tensor), path[i]!);
    for (const s of node.src) {
      if (s === undefined) continue;
      const group = things.groupOf(s);
      readers.set(group, (readers.get(group) ?? new Set<number>()).add(path[i]!));
    }
  });
  const result = new Map<Tensor, number>();
  for (const t of [...program.leafs, ...program.nodes.map((n) => n.tensor)]) {
    if (t.viewSrc !== undefined) continue;
    const group = things.groupOf(t);
    const fixed = things.fixedOf(group);
    result.set(t, fixed !== FREE ? fixed : (ofGroup.get(group) ?? nearest(readers.get(group), backends)));
  }
  return result;
}

// A leaf that several backends read lies on the host: sending it is cheap, fetching it is not.
function nearest(readers: ReadonlySet<number> | undefined, backends: readonly Backend[]): number {
  if (readers === undefined) return backends.length - 1;
  const list = [...readers];
  return list.find((b) => backends[b]!.bufferType.isHost) ?? list[0]!;
}
