import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { InvalidRequestError } from '../../../src/errors.ts';
import { JinjaChatTemplate } from '../../../src/tokenizer/chat-template.ts';
import { strftime } from '../../../src/tokenizer/strftime.ts';
import { sharedFixture } from '../../helpers/fixtures.ts';
import { needsShared } from '../../helpers/needs.ts';

const CHATML =
  '{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}';
const HELLO = [{ role: 'user', content: 'Hello' }];

describe('a chat template', () => {
  it('renders messages, special tokens and the generation prompt', () => {
    const template = new JinjaChatTemplate(CHATML, { bos_token: '<s>', eos_token: '</s>' });
    expect(template.render(HELLO, { addGenerationPrompt: true })).toBe('<s><|user|>Hello</s><|assistant|>');
    expect(template.render(HELLO, { addGenerationPrompt: false })).toBe('<s><|user|>Hello</s>');
  });

  it('reads Windows line ends as Jinja does', () => {
    const template = new JinjaChatTemplate('{% if true %}\r\na\r\nb{% endif %}', {});
    expect(template.render(HELLO, { addGenerationPrompt: false })).toBe('a\nb');
  });

  it('gives the variables of the caller, which may hide a built-in name', () => {
    const template = new JinjaChatTemplate('{{ enable_thinking }} {{ range }}', {});
    const variables = { enable_thinking: 'no', range: 'near' };
    expect(template.render(HELLO, { addGenerationPrompt: false, variables })).toBe('no near');
  });

  it('counts with range as Python does', () => {
    const template = new JinjaChatTemplate(
      '{% for i in range(3) %}{{ i }}{% endfor %} {% for i in range(5, 0, -2) %}{{ i }}{% endfor %}',
      {},
    );
    expect(template.render(HELLO, { addGenerationPrompt: false })).toBe('012 531');
  });

  it('passes on the words in which it refuses a conversation', () => {
    const template = new JinjaChatTemplate("{{ raise_exception('no system role') }}", {});
    expect(() => template.render(HELLO, { addGenerationPrompt: true })).toThrow(
      'the chat template refuses these messages: no system role',
    );
  });

  it('answers a failure inside it with an error of the request', () => {
    const template = new JinjaChatTemplate('{{ messages[0].content.nothing.there() }}', {});
    expect(() => template.render(HELLO, { addGenerationPrompt: true })).toThrow(InvalidRequestError);
  });

  it('says how to go on when it does not compile', () => {
    const template = new JinjaChatTemplate('{% for %}', {});
    expect(() => template.render(HELLO, { addGenerationPrompt: true })).toThrow(
      /does not compile.*\/v1\/completions/,
    );
  });

  it('knows the date', () => {
    const template = new JinjaChatTemplate("{{ strftime_now('%Y') }}", {});
    expect(template.render(HELLO, { addGenerationPrompt: true })).toMatch(/^20\d\d$/);
  });
});

describe('strftime', () => {
  it('knows the codes that templates use', () => {
    const noon = new Date(2025, 6, 4, 0, 5, 9);
    expect(strftime(noon, '%d %b %Y, %A %B %-d %y %j %H:%M:%S %I%p %F %T %% %Q')).toBe(
      '04 Jul 2025, Friday July 4 25 185 00:05:09 12AM 2025-07-04 00:05:09 % %Q',
    );
  });
});

const renderings = sharedFixture('chat-templates');

describe('published chat templates', needsShared(renderings), () => {
  const read = (file: string) => readFileSync(`${renderings}/${file}`, 'utf8');
  const caseSchema = z.object({
    template: z.string(),
    context: z.string(),
    add_generation_prompt: z.boolean(),
    output: z.string().optional(),
  });
  const contextSchema = z.record(z.string(), z.record(z.string(), z.unknown()));

  it('render as in Python, but for 36 cases that need what the engine lacks', () => {
    const contexts = contextSchema.parse(JSON.parse(read('contexts.json')));
    // The golden renderings were made with this clock.
    const clock = new Date(2025, 6, 10, 12, 0, 0);
    const counts = { equal: 0, refused: 0, different: 0, failed: 0 };
    for (const line of read('expected_renderings.jsonl').split('\n').filter(Boolean)) {
      const golden = caseSchema.parse(JSON.parse(line));
      const { tools_in_user_message: _, ...context } = contexts[golden.context] ?? {};
      let output: string | undefined;
      try {
        output = new JinjaChatTemplate(read(golden.template), {}).renderVariables({
          ...context,
          add_generation_prompt: golden.add_generation_prompt,
          strftime_now: (format: string) => strftime(clock, format),
        });
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidRequestError);
      }
      if (output === undefined) counts[golden.output === undefined ? 'refused' : 'failed']++;
      else counts[output === golden.output ? 'equal' : 'different']++;
    }
    expect(counts.different).toBe(0);
    expect(counts.refused).toBe(146);
    expect(counts.equal).toBeGreaterThanOrEqual(558);
  });
});
