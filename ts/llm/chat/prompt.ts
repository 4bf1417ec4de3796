// From a conversation to token ids: the model's template rendered, special tokens parsed, one start token.

import { FormatError, GraphError } from "../../errors.ts";
import type { Tokenizer } from "../tokenizer.ts";
import {
  type ChatMessage,
  type ChatTool,
  type PlainMessage,
  readMessages,
  readTools,
  withContent,
  withParsedArguments,
  withSystemRole,
} from "./messages.ts";
import { type Json, plain } from "./plain.ts";
import { strftime } from "./strftime.ts";
import { type ChatTemplate, GLOBALS, type TemplateVariables } from "./template.ts";
import type { ChatTemplates } from "./templates.ts";

/** What a template is rendered with. */
export interface PromptOptions {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[] | undefined;
  /** end the prompt where the answer begins; default true */
  readonly addGenerationPrompt?: boolean | undefined;
  /** further variables: enable_thinking, reasoning_effort, documents ... */
  readonly variables?: TemplateVariables | undefined;
  /** today, for templates that tell the date; default now */
  readonly date?: Date | undefined;
}

/** Variables that are set from elsewhere. */
const TAKEN: readonly string[] = [
  ...GLOBALS,
  "messages",
  "tools",
  "add_generation_prompt",
  "bos_token",
  "eos_token",
];

/** Renders conversations with one model's templates and tokenizer. */
export class Prompter {
  readonly #templates: ChatTemplates;
  readonly #tokenizer: Tokenizer;
  /** the last other choice, so that its template is compiled once */
  #other: { readonly text: string; readonly prompter: Prompter } | undefined;
  readonly #wantsParts = new WeakMap<ChatTemplate, Promise<boolean>>();

  constructor(templates: ChatTemplates, tokenizer: Tokenizer) {
    this.#templates = templates;
    this.#tokenizer = tokenizer;
  }

  /** The same with another choice of template, see {@link ChatTemplates.with}. */
  with(chatTemplate: string | undefined): Prompter {
    if (chatTemplate === undefined) return this;
    if (this.#other?.text !== chatTemplate) {
      const prompter = new Prompter(this.#templates.with(chatTemplate), this.#tokenizer);
      this.#other = { text: chatTemplate, prompter };
    }
    return this.#other.prompter;
  }

  /**
   * The prompt as text.
   *
   * @throws {FormatError} template-error
   * @throws {GraphError} bad-param
   */
  async render(options: PromptOptions): Promise<string> {
    const { messages, weight } = readMessages(options.messages);
    const tools = readTools(options.tools);
    const more = readVariables(options.variables);
    const template = this.#templates.pick(tools !== undefined);
    const date = options.date ?? new Date();
    const variables = {
      ...this.#tokens(),
      add_generation_prompt: options.addGenerationPrompt ?? true,
      date_string: strftime(date, "%d %b %Y"),
      datetime: strftime(date, "%b %d %Y"),
      ...(tools === undefined ? {} : { tools: tools.value }),
      ...more.value,
    };
    const total = weight + (tools?.weight ?? 0) + more.weight;
    const render = (list: readonly PlainMessage[]): Promise<string> =>
      template.render({ ...variables, messages: list }, total, date);
    const list = template.source.includes("developer") ? messages : withSystemRole(messages);
    const formed = withContent(list, (await this.#parts(template)) ? "parts" : "text");
    return renderCalls(formed, render);
  }

  /**
   * The prompt as token ids. Special tokens in the rendered text become tokens; there is exactly one start token when
   * the model wants one, whether the template writes it or not. No end token is added.
   */
  async encode(options: PromptOptions): Promise<number[]> {
    return promptIds(this.#tokenizer, await this.render(options));
  }

  // Texts of the start and the end token, "" where there is none.
  #tokens(): Record<"bos_token" | "eos_token", string> {
    const { bos, eos } = this.#tokenizer.ids;
    const text = (id: number): string => (id < 0 ? "" : this.#tokenizer.text(id));
    return { bos_token: text(bos), eos_token: text(eos) };
  }

  // Some templates go through the parts of a content and print nothing of a text. Found out by trying.
  #parts(template: ChatTemplate): Promise<boolean> {
    const known = this.#wantsParts.get(template);
    if (known !== undefined) return known;
    const prints = async (content: Json): Promise<boolean> => {
      try {
        const variables = {
          ...this.#tokens(),
          messages: [{ role: "user", content }],
          add_generation_prompt: true,
        };
        return (await template.render(variables, 0, new Date(0))).includes(NEEDLE);
      } catch (error) {
        if (error instanceof FormatError) return false;
        throw error;
      }
    };
    const asked = prints(NEEDLE).then((text) => !text && prints([{ type: "text", text: NEEDLE }]));
    this.#wantsParts.set(template, asked);
    return asked;
  }
}

const NEEDLE = "<needle>";

// Arguments as objects; as they came when the template cannot take that.
async function renderCalls(
  messages: readonly PlainMessage[],
  render: (messages: readonly PlainMessage[]) => Promise<string>,
): Promise<string> {
  if (!messages.some((message) => Array.isArray(message["tool_calls"]))) return render(messages);
  try {
    return await render(withParsedArguments(messages));
  } catch (error) {
    // If both fail, the first error is the one that counts.
    return render(messages).catch(() => Promise.reject(error as Error));
  }
}

/** Ids of a rendered prompt; see {@link Prompter.encode}. */
export function promptIds(tokenizer: Tokenizer, text: string): number[] {
  const ids = tokenizer.encode(text, { addSpecial: false, parseSpecial: true });
  if (!tokenizer.addBos) return ids;
  const { bos } = tokenizer.ids;
  const first = ids.findIndex((id) => id !== bos);
  return [bos, ...(first < 0 ? [] : ids.slice(first))];
}

function readVariables(variables: TemplateVariables | undefined): {
  value: { readonly [key: string]: Json };
  weight: number;
} {
  if (variables === undefined) return { value: {}, weight: 0 };
  const taken = Object.keys(variables).find((name) => TAKEN.includes(name));
  if (taken !== undefined)
    throw new GraphError("bad-param", `template variables: "${taken}" is set from elsewhere`);
  const { value, weight } = plain(variables, "template variables");
  return { value: value as { readonly [key: string]: Json }, weight };
}
