// The chat templates of a model, and which of them a conversation gets.

import { FormatError, GraphError } from "../../errors.ts";
import type { Metadata } from "../metadata.ts";
import { ChatTemplate } from "./template.ts";

const KEY = "tokenizer.chat_template";
/** The variant for conversations with tools. */
const TOOL_USE = "tool_use";

const CHATML =
  "{% for message in messages %}" +
  "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}" +
  "{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/** Templates by name. Nothing is compiled here: a broken template must not keep a model from loading. */
export class ChatTemplates {
  readonly #byName: ReadonlyMap<string, ChatTemplate>;
  readonly #chosen: ChatTemplate | undefined;

  private constructor(byName: ReadonlyMap<string, ChatTemplate>, chosen?: ChatTemplate) {
    this.#byName = byName;
    this.#chosen = chosen;
  }

  /** Templates of a file: `tokenizer.chat_template` and those named in `tokenizer.chat_templates`. Never throws. */
  static read(meta: Metadata): ChatTemplates {
    const byName = new Map<string, ChatTemplate>();
    add(byName, meta, "", KEY);
    for (const name of [TOOL_USE, ...namesIn(meta)]) add(byName, meta, name, `${KEY}.${keyPart(name)}`);
    return new ChatTemplates(byName);
  }

  /** Names of the variants, without the default one. */
  get names(): readonly string[] {
    return [...this.#byName.keys()].filter((name) => name !== "");
  }

  /**
   * The same with one template chosen for all conversations.
   *
   * @param text "chatml", the name of a variant, or a template itself
   * @throws {GraphError} bad-param for an empty text or an unknown name
   */
  with(text: string): ChatTemplates {
    return new ChatTemplates(this.#byName, this.#resolve(text));
  }

  /**
   * The template for a conversation: the chosen one, else with tools the one for tools, else the default.
   *
   * @throws {FormatError} template-error naming the key when the file has none
   */
  pick(tools: boolean): ChatTemplate {
    const forTools = this.#byName.get(TOOL_USE);
    const found = this.#chosen ?? (tools ? forTools : undefined) ?? this.#byName.get("") ?? forTools;
    if (found !== undefined) return found;
    const text = `${KEY}: the file has no chat template; pass one as chatTemplate, or "chatml"`;
    throw new FormatError("template-error", text, { key: KEY });
  }

  #resolve(text: string): ChatTemplate {
    const named =
      typeof text === "string" ? (builtIn("chatTemplate", text) ?? this.#byName.get(text)) : undefined;
    if (named !== undefined) return named;
    if (typeof text === "string" && text.includes("{")) return new ChatTemplate("chatTemplate", text);
    const known = ["chatml", ...this.names].join(", ");
    throw new GraphError(
      "bad-param",
      `chatTemplate: "${text}" is neither a template nor the name of one; known: ${known}`,
      { expected: known, actual: text },
    );
  }
}

function builtIn(key: string, text: string): ChatTemplate | undefined {
  return text === "chatml" ? new ChatTemplate(key, CHATML) : undefined;
}

// Files with a value of the wrong kind load all the same; their templates do not exist.
function add(byName: Map<string, ChatTemplate>, meta: Metadata, name: string, key: string): void {
  if (!meta.has(key) || byName.has(name)) return;
  try {
    const source = meta.str(key);
    byName.set(name, builtIn(key, source) ?? new ChatTemplate(key, source));
  } catch {
    byName.delete(name);
  }
}

function namesIn(meta: Metadata): string[] {
  try {
    const list = meta.strings(`${KEY}s`);
    const decoder = new TextDecoder();
    return Array.from({ length: Math.min(list?.length ?? 0, 64) }, (_, i) => decoder.decode(list!.bytes(i)));
  } catch {
    return [];
  }
}

/** How a name is spelt in a key. */
function keyPart(name: string): string {
  return name.replace(/[^A-Za-z0-9]/g, "_");
}
