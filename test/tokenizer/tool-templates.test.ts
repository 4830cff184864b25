// Conversations with tools in the words of chat templates: of small ones, and of published ones, whose calls are read back.

import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { answerFormats } from '../../src/parsers/answer-formats.ts';
import { answerOf } from '../../src/parsers/answer-parts.ts';
import { ToolUse } from '../../src/parsers/tool-use.ts';
import { JinjaChatTemplate } from '../../src/tokenizer/chat-template.ts';
import type { ChatMessage } from '../../src/tokenizer/tokenizer.ts';
import { needs } from '../helpers/needs.ts';
import { formatsOf, parse } from '../parsers/parse.ts';

const ARGUMENTS = { city: 'Paris', days: 3 };
const CALLED: readonly ChatMessage[] = [
  { role: 'user', content: 'The weather?' },
  {
    role: 'assistant',
    content: '',
    tool_calls: [
      { id: 'abcdef123', type: 'function', function: { name: 'get_weather', arguments: ARGUMENTS } },
    ],
  },
];

/** Without a description, as clients may send it. */
const TOOL = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    parameters: {
      type: 'object' as const,
      properties: { city: { type: 'string' }, days: { type: 'integer' } },
    },
  },
};
/** Those of a model that may call. */
const FORMATS = formatsOf('hermes');

async function render(source: string, messages: readonly ChatMessage[]): Promise<string> {
  const template = new JinjaChatTemplate(source, { bos_token: '', eos_token: '' });
  try {
    const { templateTools: tools } = new ToolUse({ tools: [TOOL] }, FORMATS);
    return await template.render(messages, { addGenerationPrompt: false, tools });
  } finally {
    await template.close();
  }
}

describe('chat templates', () => {
  const calls = (printed: string) =>
    `{% for m in messages %}{% for c in m.tool_calls %}${printed}{% endfor %}{% endfor %}`;

  it.each([
    [
      'as an object that they write as JSON',
      '{{ c.function.arguments | tojson }}',
      '{"city": "Paris", "days": 3}',
    ],
    [
      'as an object that they walk',
      '{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}',
      'city=Paris;days=3;',
    ],
    ['as a text that they print', '{{ c.function.arguments }}', '{"city": "Paris", "days": 3}'],
    [
      'as a text that they add to others',
      "{{ 'a: ' + c.function.arguments }}",
      'a: {"city": "Paris", "days": 3}',
    ],
  ])('get the arguments of calls %s', async (_, printed, expected) => {
    expect(await render(calls(printed), CALLED)).toBe(expected);
  });

  it('get calls beside no content where they write them only then', async () => {
    const called = '{% if m.content is none %}{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}';
    const source = `{% for m in messages %}${called}{% endfor %}`;
    expect(await render(source, CALLED)).toBe('{"city": "Paris", "days": 3}');
    expect(await render("{{ '' + messages[1].content }}", CALLED)).toBe('');
  });

  it('print arguments that came as text as the model wrote them', async () => {
    const [user, answer] = CALLED;
    const called = { name: 'get_weather', arguments: '{"city":"Paris",  "days": 3.0}' };
    const asText = [user!, { ...answer!, tool_calls: [{ ...answer!.tool_calls![0]!, function: called }] }];
    expect(await render(calls("{{ 'a: ' + c.function.arguments }}"), asText)).toBe(`a: ${called.arguments}`);
    expect(await render(calls('{{ c.function.arguments | tojson }}'), asText)).toBe(
      '{"city": "Paris", "days": 3.0}',
    );
  });

  it('get calls in the form of the one that renders: for tools, or of the request', async () => {
    const asObject = calls('{{ c.function.arguments | tojson }}');
    const template = new JinjaChatTemplate(
      asObject,
      {},
      { sourceForTools: calls("{{ 'T' + c.function.arguments }}") },
    );
    try {
      const options = { addGenerationPrompt: false };
      expect(await template.render(CALLED, options)).toBe('{"city": "Paris", "days": 3}');
      expect(await template.render(CALLED, { ...options, tools: [TOOL] })).toBe(
        'T{"city": "Paris", "days": 3}',
      );
      const own = { ...options, tools: [TOOL], template: calls("{{ 'R' + c.function.arguments }}") };
      expect(await template.render(CALLED, own)).toBe('R{"city": "Paris", "days": 3}');
    } finally {
      await template.close();
    }
  });

  it('get developers as system where they know none', async () => {
    const messages = [{ role: 'developer', content: 'x' }];
    expect(await render('{{ messages[0].role }}', messages)).toBe('system');
    const own =
      "{% for m in messages %}{% if m.role == 'developer' %}dev: {{ m.content }}{% endif %}{% endfor %}";
    expect(await render(own, messages)).toBe('dev: x');
    // The word alone does not write the message.
    const preamble =
      "# developer preamble {% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}";
    expect(await render(preamble, messages)).toBe('# developer preamble x');
  });

  it('get the parts of each role as they write those, and texts in place of those that they do not', async () => {
    const parts = ['a', 'b'].map((text) => ({ type: 'text' as const, text }));
    const calls = [{ id: 'abcdef123', type: 'function' as const, function: { name: 'f', arguments: {} } }];
    const messages = [
      { role: 'system', content: parts },
      { role: 'user', content: parts },
      { role: 'assistant', content: parts, tool_calls: calls },
      { role: 'tool', content: parts },
    ];
    const walk =
      '{% if m.content is string %}"{{ m.content }}"{% else %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endif %}';
    const ofUsers = `{% for m in messages %}{% if m.role == 'user' %}${walk}{% elif m.role == 'assistant' %}{{ m.content[0].text if m.content is not string else m.content }}{% else %}{{ m.content }}{% endif %}|{% endfor %}`;
    expect(await render(ofUsers, messages)).toBe('a\nb|<a><b>|a\nb|a\nb|');
    expect(await render(`{% for m in messages %}${walk}|{% endfor %}`, messages)).toBe(
      '<a><b>|<a><b>|<a><b>|<a><b>|',
    );
  });
});

const FOLDER = '../shared/fixtures/chat-templates/templates';
const PUBLISHED = [
  'llama.cpp/Qwen-Qwen3-0.6B',
  'llama.cpp/Qwen3.5-4B',
  'llama.cpp/NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use',
  'llama.cpp/mistralai-Mistral-Nemo-Instruct-2407',
  'llama.cpp/mistralai-Ministral-3-14B-Reasoning-2512',
  'llama.cpp/openai-gpt-oss-120b',
  'trl/deepseekv3',
  'llama.cpp/deepseek-ai-DeepSeek-R1-Distill-Llama-8B',
  'trl/glm4moe',
  'trl/lfm2_2_5',
  'llama.cpp/google-gemma-4-31B-it-interleaved',
  'trl/diffusion_gemma',
];

describe('published chat templates', needs(existsSync(FOLDER), 'there is no ../shared/fixtures'), () => {
  it.each(PUBLISHED)('%s writes calls that its parser reads', async (name) => {
    const source = readFileSync(`${FOLDER}/${name}.jinja`, 'utf8');
    const rendered = await render(source, CALLED);
    // What is before the answer belongs to the prompt.
    const [, answer = ''] = rendered.split('The weather?');
    const said = name.includes('gpt-oss') ? answer.replace('<|end|>', '') : answer;
    const formats = answerFormats({ toolCallParser: null, reasoningParser: 'none' }, source);
    const { calls } = answerOf(parse(formats, [said], { tools: [TOOL.function] }));
    expect(calls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) }))).toEqual([
      { name: 'get_weather', arguments: ARGUMENTS },
    ]);
  });
});
