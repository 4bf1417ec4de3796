// Chat templates: what they print, what they are refused, and how conversations become tokens.
import { describe, expect, test } from "vitest";
import { FormatError, GraphError } from "../ts/errors.ts";
import { type PromptOptions, Prompter } from "../ts/llm/chat/prompt.ts";
import { strftime } from "../ts/llm/chat/strftime.ts";
import { ChatTemplates } from "../ts/llm/chat/templates.ts";
import { loadTokenizer } from "../ts/llm/tokenizer.ts";
import { type Fake, metaOf, spmMeta } from "./meta.ts";

const KEY = "tokenizer.chat_template";
const hello: PromptOptions["messages"] = [{ role: "user", content: "hello" }];

function prompter(template: string | undefined, more: Record<string, Fake> = {}): Prompter {
  const meta = metaOf({ ...spmMeta(["hi", "▁hi"]), [KEY]: template, ...more });
  return new Prompter(ChatTemplates.read(meta), loadTokenizer(meta));
}

function render(template: string | undefined, options: Partial<PromptOptions> = {}): Promise<string> {
  return prompter(template).render({ messages: hello, ...options });
}

async function reasonOf(template: string, options: Partial<PromptOptions> = {}): Promise<string> {
  const error = await render(template, options).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(FormatError);
  expect(error).toMatchObject({ code: "template-error", details: { key: KEY } });
  return (error as Error).message;
}

const LLAMA3 =
  "{% set loop_messages = messages %}{% for message in loop_messages %}" +
  "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}" +
  "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";

const ALTERNATING =
  "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}" +
  "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}" +
  "{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}{% else %}{{ m['content'] + eos_token }}" +
  "{% endif %}{% endfor %}";

const TOOLS = `{%- if tools %}
    {{- '<|im_start|>system\\n# Tools' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.tool_calls %}
        {{- '<|im_start|>' + message.role }}
        {%- for tool_call in message.tool_calls %}
            {%- set tool_call = tool_call.function %}
            {{- '\\n<tool_call>{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}{{- '}</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}`;

const weather = {
  type: "function",
  function: { name: "weather", description: "Wetter für heute", parameters: { type: "object" } },
} as const;

describe("rendering", () => {
  test("the forms that common models use", async () => {
    const messages = [
      { role: "user", content: " hello " },
      { role: "assistant", content: "hi" },
    ];
    expect(await render(LLAMA3, { messages })).toBe(
      "<s><|start_header_id|>user<|end_header_id|>\n\nhello<|eot_id|>" +
        "<|start_header_id|>assistant<|end_header_id|>\n\nhi<|eot_id|>" +
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    );
    expect(await render(ALTERNATING, { messages })).toBe("<s>[INST]  hello  [/INST]hi</s>");
    expect(await render("chatml", { messages, addGenerationPrompt: false })).toBe(
      "<|im_start|>user\n hello <|im_end|>\n<|im_start|>assistant\nhi<|im_end|>\n",
    );
  });

  test("tools reach the template, and are undefined rather than empty without any", async () => {
    const call = { function: { name: "weather", arguments: '{"city": "Köln", "days": 2}' } };
    const messages = [...hello, { role: "assistant", content: null, tool_calls: [call] }];
    const json =
      '{"type": "function", "function": {"name": "weather", "description": "Wetter für heute", "parameters": {"type": "object"}}}';
    expect(await render(TOOLS, { messages, tools: [weather] })).toBe(
      `<|im_start|>system\n# Tools\n${json}<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n` +
        '<tool_call>{"name": "weather", "arguments": {"city": "Köln", "days": 2}}</tool_call><|im_end|>\n' +
        "<|im_start|>assistant\n",
    );
    const says = "{{ 'none' if tools is not defined else 'some' }}";
    expect(await render(says, { tools: [] })).toBe("none");
    expect(await render(says, { tools: [weather] })).toBe("some");
  });

  test("arguments of calls stay text where the template wants text", async () => {
    const call = { function: { name: "f", arguments: '{"a": 1}' } };
    const messages = [{ role: "assistant", tool_calls: [call] }];
    const joins = "{{ 'args: ' + messages[0].tool_calls[0].function.arguments }}";
    expect(await render(joins, { messages })).toBe('args: {"a": 1}');
  });

  test("contents come as texts or as parts, whichever the template prints", async () => {
    const parts = "{% for m in messages %}{% for p in m.content %}{{ p.text }}|{% endfor %}{% endfor %}";
    const text = "{% for m in messages %}{{ '>' + m.content }}{% endfor %}";
    const two = [
      {
        role: "user",
        content: [
          { type: "text", text: "a" },
          { type: "text", text: "b" },
        ],
      },
    ] as const;
    expect(await render(parts)).toBe("hello|");
    expect(await render(parts, { messages: two })).toBe("a|b|");
    expect(await render(text)).toBe(">hello");
    expect(await render(text, { messages: two })).toBe(">a\nb");
  });

  test("the date is the one passed, in English, for strftime_now and the date variables", async () => {
    const date = new Date(2026, 4, 7, 9, 5, 3);
    const template =
      "{{ strftime_now('%d %b %Y') }}|{{ date_string }}|{{ datetime }}|{{ strftime_now('%A %-d %B %H:%M') }}";
    expect(await render(template, { date })).toBe("07 May 2026|07 May 2026|May 07 2026|Thursday 7 May 09:05");
    expect(strftime(date, "%y %j %I%p %e %a %F %T %D %w %S %% %Q")).toBe(
      "26 127 09AM  7 Thu 2026-05-07 09:05:03 05/07/26 4 03 % %Q",
    );
    expect(strftime(new Date(2025, 11, 31, 0, 0), "%j %I %p")).toBe("365 12 AM");
  });

  test("namespaces, break, continue, macros, tojson with options, the training tag", async () => {
    const cases = {
      "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 2 %}{% endfor %}{{ ns.n }}":
        "2",
      "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}":
        "023",
      "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice('ab') }}": "abab",
      "{{ {'b': 1, 'a': ['ü', none]} | tojson(indent=2, ensure_ascii=true, sort_keys=true) }}":
        '{\n  "a": [\n    "\\u00fc",\n    null\n  ],\n  "b": 1\n}',
      "{{ [1, 2] | tojson(separators=(',', ':')) }}": "[1,2]",
      "{% generation %}x{% endgeneration %}": "x",
      "{{ range(3, 9, 3) | list }}{{ range(2, -2, -2) | list }}{{ range(0) | list }}": "[3, 6][2, 0][]",
      "{{ [] | first is defined }}|{{ {'a': 1} | string }}|{{ 'x' ~ ['a'] }}": 'false|{"a": 1}|x["a"]',
      "{{ '\\n\\n a \\n'.lstrip('\\n') }}|{{ '--😀x-'.strip('-😀') }}|{{ 'xx'.rstrip('x') }}|{{ '  b '.strip() }}":
        " a \n|x||b",
      "{{ messages[::-1][0].role.upper() }} {{ 'a,b'.split(',') | join('-') }} {{ 'aXbX'.replace('X', '..') }}":
        "USER a-b a..b..",
    };
    for (const [template, text] of Object.entries(cases)) expect(await render(template)).toBe(text);
  });

  test("the role developer becomes system where a template does not know it", async () => {
    const messages = [{ role: "developer", content: "be brief" }];
    expect(await render("{{ messages[0].role }}", { messages })).toBe("system");
    expect(await render("{{ messages[0].role }}{# developer #}", { messages })).toBe("developer");
  });

  test("variables of the caller reach the template, but replace none of its own", async () => {
    const template = "{{ 'think' if enable_thinking else 'no' }}";
    expect(await render(template, { variables: { enable_thinking: true } })).toBe("think");
    expect(await render(template)).toBe("no");
    for (const name of ["messages", "bos_token", "range"]) {
      await expect(render(template, { variables: { [name]: 1 } })).rejects.toMatchObject({
        code: "bad-param",
      });
    }
  });
});

describe("refusals", () => {
  test("a template's own refusal reaches the caller", async () => {
    const messages = [{ role: "assistant", content: "hi" }];
    expect(await reasonOf(ALTERNATING, { messages })).toBe(
      `${KEY}: Conversation roles must alternate user/assistant/user/assistant/...`,
    );
  });

  test("faults of a template are template errors, and the next rendering works", async () => {
    const faults = [
      "{% for m in messages %}{{ m.content }}",
      "{% if x %}",
      "{{ messages | quux }}",
      "{{ bos_token + nothing_here }}",
      "{{ nothing_here() }}",
      "{{ 'x' + messages }}",
      "{{ 'x' + messages[0] }}",
      "{% unknown %}",
      "{{ 1 +",
      "{{ 'open }}",
      "{% break %}",
      "{{ range(1, 2, 0) }}",
      "{{ range('x') }}",
      "{% for c in 5 %}{% endfor %}",
    ];
    for (const fault of faults) expect((await reasonOf(fault)).length).toBeGreaterThan(KEY.length + 3);
  });

  test("nothing of the host can be reached", async () => {
    for (const way of [
      "''.constructor.constructor('return process')()",
      "messages.__class__.__mro__()",
      "messages.constructor('x')",
      "namespace.constructor('return this')()",
      "range.constructor('return this')()",
      "raise_exception.call()",
      "{}.__proto__.polluted()",
    ])
      await reasonOf(`{{ ${way} }}`);
    expect(await render("{{ ''.constructor }}{{ {}.toString }}{{ messages.length }}{{ range.name }}")).toBe(
      "1",
    );
  });

  // Each of these would take for ever, or all memory.
  test.each([
    [
      "a loop over 10^16 numbers",
      "{% for a in range(100000000) %}{% for b in range(100000000) %}x{% endfor %}{% endfor %}",
    ],
    ["10^16 numbers at once", "{{ range(10000000000000000) }}"],
    ["empty loops", "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"],
    [
      "a text that doubles",
      `{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`,
    ],
    [
      "a text that doubles by ~",
      `{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`,
    ],
    [
      "a list that doubles",
      `{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}`,
    ],
    [
      "a list that holds itself twice",
      `{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}`,
    ],
    [
      "a deep list",
      `{% set ns = namespace(x=[1]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }}`,
    ],
    ["a namespace in itself", "{% set ns = namespace() %}{% set ns.a = [ns, ns] %}{{ ns | tojson }}"],
    [
      "a replacement by much",
      `{% set x = 'aaaaaaaaaa' %}{% for i in range(20) %}{% set x = x.replace('a', 'aaaaaaaaaa') %}{{ x }}{% endfor %}{{ ('a' ~ range(99999)) | replace('0', ('a' ~ range(99999))) }}`,
    ],
    ["a wide indent", "{{ 'a\nb' | indent(999999999) }}"],
    ["wide JSON", "{{ messages | tojson(indent=99999999) }}"],
    ["a long separator", "{{ range(9999) | join(range(9999) | join('--')) }}"],
    [
      "a split into a million",
      "{{ (range(99999) | join(' ')).split('') }}{{ (range(99999) | join(' ')).split(' ') | length }}",
    ],
    ["endless recursion", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"],
    [
      "recursion that branches",
      "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(99) }}",
    ],
    [
      "macros made in a loop",
      `{% for i in range(100000) %}{% macro f() %}${"{{ 1 }}".repeat(5000)}{% endmacro %}{% endfor %}`,
    ],
    ["a long template", " x".repeat(2 ** 18)],
    ["a run of blanks", `a${" ".repeat(5000)}b`],
  ])("%s ends in an error soon", async (_name, template) => {
    await reasonOf(template);
  });

  test("a thousand messages and long texts are not too much", async () => {
    const messages = Array.from({ length: 1000 }, (_, i) => ({
      role: ["user", "assistant"][i % 2]!,
      content: `${i}\n`,
    }));
    for (const template of [LLAMA3, ALTERNATING, TOOLS]) {
      expect((await render(template, { messages })).length).toBeGreaterThan(5000);
    }
    const long = [{ role: "user", content: "word\n".repeat(40_000) }];
    expect((await render(LLAMA3, { messages: long })).length).toBeGreaterThan(199_000);
    const lines =
      "{% for l in messages[0].content.split('\\n') %}{{ l | trim | replace('w', 'ww') }}{% endfor %}";
    expect((await render(lines, { messages: long })).length).toBe(200_000);
  });

  test("without a template the error names the key; one that was passed serves", async () => {
    const none = prompter(undefined);
    await expect(none.render({ messages: hello })).rejects.toMatchObject({
      code: "template-error",
      message: expect.stringContaining(KEY) as string,
    });
    expect(await none.with("chatml").render({ messages: hello })).toBe(
      "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
    );
    expect(await none.with("{{ messages[0].content }}!").render({ messages: hello })).toBe("hello!");
    expect(() => none.with("chatlm")).toThrow(GraphError);
    expect(() => none.with("")).toThrow(GraphError);
  });

  test("a template of the wrong kind is no template", async () => {
    const odd = prompter(undefined, { [KEY]: 7, [`${KEY}s`]: 3 });
    await expect(odd.render({ messages: hello })).rejects.toMatchObject({ code: "template-error" });
  });

  test("calls with bad messages, tools or variables say what is wrong", async () => {
    const bad: [unknown, string][] = [
      [{ messages: [] }, "messages"],
      [{ messages: "hello" }, "messages"],
      [{ messages: [{ content: "x" }] }, "messages[0].role"],
      [{ messages: ["x"] }, "messages[0]"],
      [{ messages: [{ role: "user", content: 3 }] }, "messages[0].content"],
      [{ messages: [{ role: "user", content: [{ type: "image_url" }] }] }, "image_url"],
      [{ messages: [{ role: "user", content: "x", tool: (): void => {} }] }, "messages[0].tool"],
      [{ messages: hello, tools: [{ name: "f" }] }, "tools[0]"],
      [{ messages: hello, variables: { f: new Map() } }, "template variables.f"],
    ];
    for (const [options, part] of bad) {
      const error = await render("x", options as Partial<PromptOptions>).catch((e: unknown) => e);
      expect(error).toMatchObject({ code: "bad-param" });
      expect((error as Error).message).toContain(part);
    }
    const loop: Record<string, unknown> = { role: "user" };
    loop["self"] = loop;
    await expect(render("x", { messages: [loop as never] })).rejects.toMatchObject({ code: "bad-param" });
  });
});

describe("choice of template", () => {
  const named: Record<string, Fake> = {
    [`${KEY}s`]: ["tool_use", "my-rag"],
    [`${KEY}.tool_use`]: "TOOLS",
    [`${KEY}.my_rag`]: "RAG",
  };

  test("with tools the one for tools, otherwise the default one, by name when asked for", async () => {
    const p = prompter("DEFAULT", named);
    expect(await p.render({ messages: hello })).toBe("DEFAULT");
    expect(await p.render({ messages: hello, tools: [weather] })).toBe("TOOLS");
    expect(await p.with("my-rag").render({ messages: hello, tools: [weather] })).toBe("RAG");
    expect(await prompter(undefined, named).render({ messages: hello })).toBe("TOOLS");
  });
});

describe("from text to tokens", () => {
  const count = (ids: readonly number[], id: number): number => ids.filter((x) => x === id).length;

  test("there is one start token, whether the template, the tokenizer, both or none add it", async () => {
    const cases: [string, boolean, number][] = [
      ["{{ bos_token }}hi", true, 1],
      ["hi", true, 1],
      ["{{ bos_token }}{{ bos_token }}hi", true, 1],
      ["{{ bos_token }}hi", false, 1],
      ["hi", false, 0],
      ["", true, 1],
    ];
    for (const [template, add, n] of cases) {
      const p = prompter(template, { "tokenizer.ggml.add_bos_token": add });
      const ids = await p.encode({ messages: hello });
      expect([template, add, count(ids, 1)]).toEqual([template, add, n]);
      if (n === 1) expect(ids[0]).toBe(1);
      if (template !== "") expect(ids.at(-1)).toBe(260);
    }
  });

  test("control tokens in the rendered text become tokens; no end token is added", async () => {
    const p = prompter("{{ messages[0].content }}{{ eos_token }}hi", {
      "tokenizer.ggml.add_eos_token": true,
    });
    const ids = await p.encode({ messages: hello });
    expect(count(ids, 2)).toBe(1);
    expect(ids.at(-1)).toBe(260);
  });
});
