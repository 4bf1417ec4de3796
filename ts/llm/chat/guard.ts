// Keeps a template within bounds: every step of the interpreter is counted, every value weighed.
//
// Templates come with models that strangers made. The library evaluates lists eagerly and copies texts, so a loop over
// 10^16 numbers, a text doubled in a loop or a list that holds itself twice would take the process with it. Its
// evaluation is one method that calls itself for every node of the template; the guard stands in its place.

import type { Call, Interpreter, Node, Scope, Value } from "./jinja.ts";

/** How much a rendering may take. */
export interface Bounds {
  /** nodes evaluated, entries looped over, and a share of the characters touched */
  readonly steps: number;
  /** characters of one text, or of all that a list holds */
  readonly size: number;
}

/** A node that is a value already. */
interface Given extends Node {
  readonly value: Value;
}
interface Binary extends Node {
  readonly operator: { readonly value: string };
  readonly left: Node;
  readonly right: Node;
}
interface Member extends Node {
  readonly object: Node;
  readonly property: Node & { readonly value?: unknown };
  readonly computed: boolean;
}
interface Filter extends Node {
  readonly operand: Node;
  readonly filter: Node & {
    readonly value?: string;
    readonly callee?: Named;
    readonly args?: readonly Node[];
  };
}
interface FilterBlock extends Node {
  readonly body: readonly Node[];
  readonly filter: Filter["filter"];
}
interface Loop extends Node {
  readonly iterable: Node & { readonly lhs?: Node };
}
interface Named extends Node {
  readonly value: string;
}
interface Keyword extends Node {
  readonly key: Named;
  readonly value: Node;
}

/** What a value weighs: characters and 8 for each entry; how deep it nests; how many entries it has in all. */
interface Weight {
  readonly size: number;
  readonly depth: number;
  readonly nodes: number;
}

const MAX_DEPTH = 100;
/** What an entry of a loop costs: the library makes a scope and nine variables for it. */
const LOOP_STEPS = 16;
const SCALAR: Weight = { size: 8, depth: 0, nodes: 1 };
/** Filters whose result can be far larger than what they are given. */
const GROWING = ["replace", "indent", "join", "tojson"];
/** Methods of texts of which the same is true. */
const GROWING_METHODS = ["replace", "split"];
/** Methods of which the library forgets the argument: the characters to take off. */
const STRIPPING_METHODS = ["strip", "lstrip", "rstrip"];

/** Puts bounds on an interpreter. One guard serves one rendering. */
export class Guard {
  readonly #plain: Interpreter["evaluate"];
  readonly #bounds: Bounds;
  /** steps charged for a macro: the library walks through the macro's body each time it is defined */
  readonly #macroSteps: number;
  readonly #weights = new WeakMap<object, Weight>();
  #steps = 0;

  /** @param sourceLength characters of the template */
  constructor(interpreter: Interpreter, bounds: Bounds, sourceLength: number) {
    this.#plain = interpreter.evaluate.bind(interpreter);
    this.#bounds = bounds;
    this.#macroSteps = sourceLength >> 3;
    interpreter.evaluate = (node, scope) => this.#evaluate(node, scope);
  }

  /**
   * Numbers as Python's range gives them.
   *
   * @throws {Error} for arguments that are no integers, and for more numbers than a rendering has room for
   */
  range(...args: readonly unknown[]): number[] {
    const whole = args.every((x) => Number.isSafeInteger(x));
    if (!whole || args.length < 1 || args.length > 3)
      throw new Error("range: expected one to three integers");
    const [a, b, step = 1] = args as number[];
    const [start, stop] = b === undefined ? [0, a!] : [a!, b];
    if (step === 0) throw new Error("range: the step is 0");
    const n = Math.max(0, Math.ceil((stop - start) / step));
    this.#fits(8 * n, `range of ${n} numbers`);
    this.#charge(n);
    return Array.from({ length: n }, (_, i) => start + i * step);
  }

  // Every evaluation, also those that the library starts itself, comes through here.
  #evaluate(node: Node | undefined, scope: Scope): Value {
    if (node === undefined) return this.#plain(node, scope);
    if (node.type === "Given") return (node as Given).value;
    this.#charge(1);
    // The library's "first" and "last" give nothing at all for an empty list.
    const value = this.#visit(node, scope) ?? this.#plain(undefined, scope);
    this.#weigh(value);
    return value;
  }

  // Nodes whose parts must be known before the library may go on are given to it with their parts evaluated.
  #visit(node: Node, scope: Scope): Value {
    switch (node.type) {
      case "BinaryExpression":
        return this.#binary(node as Binary, scope);
      case "MemberExpression":
        return this.#member(node as Member, scope);
      case "FilterExpression":
        return this.#filter(node as Filter, scope);
      // {% filter f %} ... {% endfilter %} is the filter on what the body prints.
      case "FilterStatement": {
        const { body, filter } = node as FilterBlock;
        const operand = { type: "Program", body };
        return this.#filter({ type: "FilterExpression", operand, filter } as Filter, scope);
      }
      case "For":
        return this.#loop(node as Loop, scope);
      case "Macro":
      case "CallStatement":
        this.#charge(this.#macroSteps);
        return this.#plain(node, scope);
      default:
        return this.#plain(node, scope);
    }
  }

  /**
   * Sums and joined texts are weighed first. A list or object added to a text is an error, as in Python: the library
   * would print "[object Map]". With ~ it is printed as JSON.
   */
  #binary(node: Binary, scope: Scope): Value {
    const op = node.operator.value;
    // The right side of these may not be evaluated at all.
    if (op === "and" || op === "or") return this.#plain(node, scope);
    let left = this.#evaluate(node.left, scope);
    let right = this.#evaluate(node.right, scope);
    this.#charge((lengthOf(left) + lengthOf(right)) >> 4);
    if (op === "+" || op === "~") {
      this.#fits(this.#weigh(left).size + this.#weigh(right).size, `operator ${op}`);
    }
    if (op === "+" && isText(left) !== isText(right) && (isContainer(left) || isContainer(right))) {
      throw new Error(`cannot add ${nameOf(right)} to ${nameOf(left)}`);
    }
    if (op === "~") {
      left = this.#printed(left, scope);
      right = this.#printed(right, scope);
    }
    return this.#plain({ ...node, left: given(left), right: given(right) } as Node, scope);
  }

  // x.name, x["name"] and x[a:b]. Methods of texts come back with their arguments checked.
  #member(node: Member, scope: Scope): Value {
    const object = this.#evaluate(node.object, scope);
    const sliced = node.property.type === "SliceExpression";
    const looked = node.computed && !sliced;
    const property = looked ? this.#evaluate(node.property, scope) : undefined;
    if (sliced) this.#charge(lengthOf(object) >> 2);
    const known = { ...node, object: given(object), property: looked ? given(property!) : node.property };
    const value = this.#plain(known as Node, scope);
    const name = String(looked ? property!.value : node.property.value);
    if (!isText(object) || value?.type !== "FunctionValue") return value;
    if (GROWING_METHODS.includes(name)) return this.#boundedMethod(object.value as string, name, value);
    return STRIPPING_METHODS.includes(name)
      ? this.#strippingMethod(object.value as string, name, value)
      : value;
  }

  #strippingMethod(text: string, name: string, method: Value): Value {
    const call = method.value as Call;
    return methodOf(method, (args, scope) => {
      const characters = args[0]?.value;
      if (typeof characters !== "string") return call(args, scope);
      return this.#text(stripped(text, characters, name !== "rstrip", name !== "lstrip"), scope);
    });
  }

  // Counts what comes out before it is made.
  #boundedMethod(text: string, name: string, method: Value): Value {
    const call = method.value as Call;
    return methodOf(method, (args, scope) => {
      const [a, b] = args.map((x) => x.value);
      this.#charge(text.length >> 4);
      if (name === "replace" && typeof a === "string" && typeof b === "string") this.#replaces(text, a, b);
      if (name === "split") this.#fits(text.length + 16 * countParts(text, a), "split");
      return call(args, scope);
    });
  }

  // x | f and x | f(a, key=b).
  #filter(node: Filter, scope: Scope): Value {
    const operand = this.#evaluate(node.operand, scope);
    this.#charge(lengthOf(operand) >> (isText(operand) ? 6 : 2));
    const { filter } = node;
    const name = filter.callee?.value ?? filter.value ?? "";
    if (name === "string" && isContainer(operand)) return this.#printed(operand, scope);
    if (!GROWING.includes(name)) return this.#plain({ ...node, operand: given(operand) } as Node, scope);
    const args = (filter.args ?? []).map((arg) => this.#argument(arg, name, scope));
    this.#grows(name, operand, args);
    const known = filter.args === undefined ? filter : { ...filter, args };
    return this.#plain({ ...node, operand: given(operand), filter: known } as Node, scope);
  }

  // An argument with its value known.
  #argument(arg: Node, name: string, scope: Scope): Node {
    if (arg.type === "SpreadExpression" || arg.type === "KeywordSpreadExpression") {
      throw new Error(`${name}: arguments cannot be unpacked here`);
    }
    if (arg.type !== "KeywordArgumentExpression") return given(this.#evaluate(arg, scope));
    return { ...arg, value: given(this.#evaluate((arg as Keyword).value, scope)) } as Node;
  }

  /** Refuses a filter whose result would be out of bounds, before it is made. */
  #grows(name: string, operand: Value, args: readonly Node[]): void {
    const { size, depth, nodes } = this.#weigh(operand);
    const text = String(isText(operand) ? operand.value : "");
    const value = (place: number, key: string): unknown => argumentOf(args, place, key);
    const width = Number(name === "tojson" ? (value(-1, "indent") ?? 0) : (value(0, "width") ?? 4));
    if (name === "replace") return this.#replaces(text, String(value(0, "old")), String(value(1, "new")));
    if (name === "indent") return this.#fits(size + width * countParts(text, "\n"), name);
    if (name === "join") return this.#fits(size + nodes * String(value(0, "separator") ?? "").length, name);
    // JSON: each entry on a line of its own, indented by its depth.
    const separators = value(-1, "separators");
    const between = Array.isArray(separators) ? separators.join("").length : 4;
    this.#fits(size + nodes * (between + width * (depth + 1)), name);
  }

  #replaces(text: string, old: string, by: string): void {
    const times = old === "" ? text.length + 1 : countParts(text, old) - 1;
    this.#fits(text.length + times * Math.max(0, by.length - old.length), "replace");
  }

  // The library goes through the whole list before the first turn, so the list is charged for at once.
  #loop(node: Loop, scope: Scope): Value {
    const { iterable } = node;
    const selects = iterable.type === "SelectExpression";
    const list = this.#evaluate(selects ? iterable.lhs : iterable, scope);
    this.#charge(LOOP_STEPS * lengthOf(list));
    const known = selects ? { ...iterable, lhs: given(list) } : given(list);
    return this.#plain({ ...node, iterable: known } as Node, scope);
  }

  /** A list or object as the text that the library prints for it. */
  #printed(value: Value, scope: Scope): Value {
    return isContainer(value) ? this.#text(value.toString(), scope) : value;
  }

  #text(text: string, scope: Scope): Value {
    return this.#plain({ type: "StringLiteral", value: text } as Node, scope);
  }

  #charge(steps: number): void {
    this.#steps += steps;
    if (this.#steps > this.#bounds.steps)
      throw new Error(`the template takes more than ${this.#bounds.steps} steps`);
  }

  #fits(size: number, what: string): void {
    if (size <= this.#bounds.size) return;
    throw new Error(`${what}: larger than ${this.#bounds.size} characters`);
  }

  /** Weight of a value; charges for its length. */
  #weigh(value: Value): Weight {
    const n = lengthOf(value);
    this.#charge(n >> 8);
    if (!isText(value) && !isContainer(value)) return SCALAR;
    const weight = this.#weighInto(value, 0, { namespaces: 0 });
    this.#fits(weight.size, nameOf(value));
    return weight;
  }

  // Weights are kept, but for what holds a namespace: the only kind of value that changes.
  #weighInto(value: Value, depth: number, seen: { namespaces: number }): Weight {
    if (isText(value)) return { size: 8 + (value.value as string).length, depth: 0, nodes: 1 };
    if (!isContainer(value)) return SCALAR;
    const known = this.#weights.get(value);
    if (depth + (known?.depth ?? 0) > MAX_DEPTH) {
      throw new Error(`a value is nested more than ${MAX_DEPTH} deep`);
    }
    if (known !== undefined) return known;
    const before = seen.namespaces;
    if (value.type === "NamespaceValue") seen.namespaces++;
    const weight = { size: 8, depth: 1, nodes: 1 };
    for (const [key, entry] of (value.value as ReadonlyMap<string, Value> | readonly Value[]).entries()) {
      this.#charge(1);
      const w = this.#weighInto(entry, depth + 1, seen);
      weight.size += w.size + String(key).length;
      weight.depth = Math.max(weight.depth, 1 + w.depth);
      weight.nodes += w.nodes;
    }
    if (seen.namespaces === before) this.#weights.set(value, weight);
    return weight;
  }
}

/** A function like another one, that does something else. */
function methodOf(method: Value, call: Call): Value {
  const make = method.constructor as new (call: Call) => Value;
  return new make(call);
}

/** Takes characters off the ends of a text, as Python's strip does. */
function stripped(text: string, characters: string, left: boolean, right: boolean): string {
  const set = new Set(characters);
  const points = Array.from(text);
  let [from, to] = [0, points.length];
  if (left) while (from < to && set.has(points[from]!)) from++;
  if (right) while (to > from && set.has(points[to - 1]!)) to--;
  return points.slice(from, to).join("");
}

function given(value: Value): Given {
  return { type: "Given", value };
}

function isText(value: Value): boolean {
  return value.type === "StringValue";
}

const CONTAINERS: readonly string[] = [
  "ArrayValue",
  "TupleValue",
  "ObjectValue",
  "KeywordArgumentsValue",
  "NamespaceValue",
];

function isContainer(value: Value): boolean {
  return CONTAINERS.includes(value.type);
}

/** Characters of a text, entries of a list or object; 0 for all else. */
function lengthOf(value: Value): number {
  const { value: inner } = value as { value: unknown };
  if (typeof inner === "string" || Array.isArray(inner)) return inner.length;
  return inner instanceof Map ? inner.size : 0;
}

/** Name of a kind of value, as templates see it. */
function nameOf(value: Value): string {
  return value.type.replace(/Value$/, "").toLowerCase();
}

/** Parts that `text` falls into at `separator`, or at white space when that is no text. */
function countParts(text: string, separator: unknown): number {
  if (typeof separator !== "string") return (text.match(/\S+/g) ?? []).length;
  if (separator === "") return 1;
  let n = 1;
  for (let at = text.indexOf(separator); at >= 0; at = text.indexOf(separator, at + separator.length)) n++;
  return n;
}

/** Plain value of an argument, by place or by name. */
function argumentOf(args: readonly Node[], place: number, key: string): unknown {
  const positional = args.filter((arg) => arg.type === "Given");
  const named = args.find((arg) => arg.type !== "Given" && (arg as Keyword).key.value === key);
  const found = (named as Keyword | undefined)?.value ?? positional[place];
  const value = (found as Given | undefined)?.value;
  if (value === undefined) return undefined;
  return Array.isArray(value.value) ? value.value.map((x) => x.value as unknown) : value.value;
}
