import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { TemplateError, TemplateRefusal, TemplateSyntaxError } from '../../src/tokenizer/jinja/errors.ts';
import { LimitError } from '../../src/tokenizer/jinja/limits.ts';
import { Template } from '../../src/tokenizer/jinja/template.ts';
import { strftime } from '../../src/tokenizer/strftime.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { CASES, CONTEXT, FAILURES } from './jinja-cases.ts';

const render = (source: string, variables: Readonly<Record<string, unknown>> = CONTEXT) =>
  new Template(source).render(variables);

function thrownBy(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

describe('a template renders as in Python', () => {
  it.each(CASES)('%s', (_, source, expected) => {
    expect(render(source)).toBe(expected);
  });

  it('reading any line end as a line feed', () => {
    expect(render('{% if true %}\r\na\r\nb{% endif %}\r\n')).toBe('a\nb');
  });

  it('with variables that may hide a built-in name', () => {
    expect(render('{{ range }} {{ tools }} {{ documents }}', { range: 'near' })).toBe('near None None');
  });

  it('with the date', () => {
    const template = new Template("{{ strftime_now('%d %b %Y') }}");
    expect(template.render({}, new Date(2025, 6, 10))).toBe('10 Jul 2025');
  });
});

describe('a template fails as in Python', () => {
  it.each(FAILURES)('for %s', (_, source, words) => {
    const error = thrownBy(() => render(source));
    expect(error).toBeInstanceOf(TemplateError);
    expect(error instanceof Error && error.message).toMatch(words);
  });

  it('in the words of its author', () => {
    const thrown = thrownBy(() => render("{{ raise_exception('no system role') }}"));
    expect(thrown).toBeInstanceOf(TemplateRefusal);
    expect(thrown).toMatchObject({ message: 'no system role' });
  });
});

describe('a template that does not compile names the line and what is wrong', () => {
  it.each([
    ['{% for %}', 1, 'unexpected %}, expected a name'],
    [
      'a\n{% if x %}\nb',
      3,
      'unexpected the end of the template, expected {% elif %} or {% else %} or {% endif %}',
    ],
    ['\n\n{{ a b }}', 3, 'unexpected b, expected }}'],
    ['{{ (1 ]\n}}', 1, 'unexpected ]'],
    ['\n{{ "a }}', 2, 'unexpected character "\\""'],
    ['{{ a', 1, 'a tag does not end: expected }}'],
    ['{# a', 1, 'a comment does not end: expected #}'],
    ['{% raw %}', 1, 'raw does not end: expected {% endraw %}'],
    ['a\n{% do x %}', 2, 'unknown tag do, expected a statement that chat templates have'],
    ['{% break %}', 1, 'break outside of a for'],
    ['{{ a | nope }}', 1, 'there is no filter nope'],
    ['{{ a | wordwrap(3) }}', 1, 'the filter wordwrap is not served'],
    ['{{ a is nope }}', 1, 'there is no test nope'],
    ['{% endfor %}', 1, 'unknown tag endfor, expected a statement that chat templates have'],
    ["{{ '\\u12' }}", 1, 'the escape \\u needs its digits'],
  ])('%s', (source, line, message) => {
    const error = thrownBy(() => new Template(source));
    expect(error).toBeInstanceOf(TemplateSyntaxError);
    expect(error).toMatchObject({ line, message });
  });

  it('where its expressions lie too deep in each other', () => {
    const source = `{{ ${'('.repeat(100_000)}1${')'.repeat(100_000)} }}`;
    expect(thrownBy(() => new Template(source))).toEqual(
      new TemplateSyntaxError('expressions lie too deep in each other', 1),
    );
  });
});

describe('a rendering goes beyond no limit', () => {
  it.each([
    ['{{ range(10 ** 9) }}', 'range() of 1000000000 elements, at most 100000 are allowed'],
    ["{{ 'a' * 10 ** 9 }}", 'the output or a text grows to 1000000000 characters'],
    ["{{ 'a'.zfill(10 ** 9) }}", 'a text grows to 1000000000 characters'],
    ["{{ '%999999999d' % 1 }}", 'a text grows to 999999999 characters'],
    ["{{ 'a' | indent(10 ** 9) }}", 'a text grows to 1000000000 characters'],
    ["{{ ('a' * 10 ** 6).replace('a', 'b' * 10 ** 6) }}", 'a text grows to 1000000000000 characters'],
    [
      "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      'a text grows',
    ],
    [
      "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      'a text grows',
    ],
    [
      '{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}',
      'a list of 2097152 elements',
    ],
    ['{{ [1] * 10 ** 9 }}', 'a list of 1000000000 elements'],
    [
      "{% set ns = namespace(s=['a']) %}{% for i in range(40) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
      'a text grows',
    ],
    ["{% set s = 'a' * 10 ** 7 %}{{ s }}{{ s }}", 'the output or a text grows to 20000000 characters'],
    ['{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}', 'too deep in each other'],
    ['{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}', 'too deep in each other'],
    ['{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}', 'too deep in each other'],
  ])('%s', (source, message) => {
    const error = thrownBy(() => render(source));
    expect(error).toBeInstanceOf(LimitError);
    expect(error instanceof Error && error.message).toContain(message);
  });

  it('and honest macros may call each other 100 deep', () => {
    const source = '{% macro m(n) %}{{ m(n - 1) if n else "." }}{% endmacro %}{{ m(100) }}';
    expect(render(source)).toBe('.');
  });
});

const published = sharedFixture('chat-templates');

describe('published chat templates', needsShared(published), () => {
  const read = (file: string) => readFileSync(`${published}/${file}`, 'utf8');
  const caseSchema = z.object({
    template: z.string(),
    context: z.string(),
    add_generation_prompt: z.boolean(),
    output: z.string().optional(),
  });
  const contextSchema = z.record(z.string(), z.record(z.string(), z.unknown()));

  it('render every conversation as in Python, and refuse those that Python refuses', () => {
    const contexts = contextSchema.parse(JSON.parse(read('contexts.json')));
    // The golden renderings were made with this clock.
    const clock = new Date(2025, 6, 10, 12, 0, 0);
    const templates = new Map<string, Template>();
    const different: string[] = [];
    const lines = read('expected_renderings.jsonl').split('\n').filter(Boolean);
    for (const line of lines) {
      const golden = caseSchema.parse(JSON.parse(line));
      const { tools_in_user_message: _, ...context } = contexts[golden.context] ?? {};
      const template = templates.get(golden.template) ?? new Template(read(golden.template));
      templates.set(golden.template, template);
      const variables = { ...context, add_generation_prompt: golden.add_generation_prompt };
      const output = thrownBy(() => template.render(variables, clock));
      const isAsExpected =
        golden.output === undefined ? output instanceof TemplateError : output === golden.output;
      if (!isAsExpected) different.push(`${golden.template} with ${golden.context}: ${output}`);
    }
    expect(lines).toHaveLength(740);
    expect(different).toEqual([]);
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
