// How models write calls in each format: one or more calls become the text of an answer.

import type { FunctionTool } from '../../src/parsers/answer-parts.ts';

export interface SampleCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

type Write = (calls: readonly SampleCall[]) => string;

const json = (value: unknown): string => JSON.stringify(value);
const asObject = ({ name, arguments: args }: SampleCall): string =>
  `{"name": ${json(name)}, "arguments": ${json(args)}}`;
const bare = (value: unknown): string => (typeof value === 'string' ? value : json(value));

const asPython = ({ name, arguments: args }: SampleCall): string => {
  const values = Object.entries(args).map(([key, value]) => `${key}=${python(value)}`);
  return `${name}(${values.join(', ')})`;
};

/** By the name of the parser. */
export const WRITTEN: Readonly<Record<string, Write>> = {
  hermes: (calls) => calls.map((call) => `<tool_call>\n${asObject(call)}\n</tool_call>`).join('\n'),
  qwen3_coder: (calls) =>
    calls
      .map(({ name, arguments: args }) => {
        const values = Object.entries(args).map(
          ([key, value]) => `<parameter=${key}>\n${bare(value)}\n</parameter>\n`,
        );
        return `<tool_call>\n<function=${name}>\n${values.join('')}</function>\n</tool_call>`;
      })
      .join('\n'),
  seed_oss: (calls) =>
    calls
      .map(({ name, arguments: args }) => {
        const values = Object.entries(args).map(
          ([key, value]) => `<parameter=${key}>${bare(value)}</parameter>\n`,
        );
        return `<seed:tool_call>\n<function=${name}>\n${values.join('')}</function>\n</seed:tool_call>`;
      })
      .join('\n'),
  minimax_m2: (calls) => {
    const invokes = calls.map(({ name, arguments: args }) => {
      const values = Object.entries(args).map(
        ([key, value]) => `<parameter name="${key}">${bare(value)}</parameter>\n`,
      );
      return `<invoke name="${name}">\n${values.join('')}</invoke>\n`;
    });
    return `<minimax:tool_call>\n${invokes.join('')}</minimax:tool_call>`;
  },
  llama3_json: (calls) =>
    calls
      .map(({ name, arguments: args }) => `{"name": ${json(name)}, "parameters": ${json(args)}}`)
      .join('; '),
  pythonic: (calls) => `[${calls.map(asPython).join(', ')}]`,
  olmo3: (calls) => `<function_calls>${calls.map(asPython).join('\n')}</function_calls>`,
  lfm2: (calls) => `<|tool_call_start|>[${calls.map(asPython).join(', ')}]<|tool_call_end|>`,
  mistral: (calls) => `[TOOL_CALLS][${calls.map(asObject).join(', ')}]`,
  'mistral from version 11 on': (calls) =>
    calls.map(({ name, arguments: args }) => `[TOOL_CALLS]${name}[ARGS]${json(args)}`).join(''),
  deepseek_v3: (calls) =>
    `<｜tool▁calls▁begin｜>${calls
      .map(
        ({ name, arguments: args }) =>
          `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${json(args)}\n\`\`\`<｜tool▁call▁end｜>`,
      )
      .join('\n')}<｜tool▁calls▁end｜>`,
  deepseek_v31: (calls) =>
    `<｜tool▁calls▁begin｜>${calls
      .map(
        ({ name, arguments: args }) =>
          `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${json(args)}<｜tool▁call▁end｜>`,
      )
      .join('')}<｜tool▁calls▁end｜>`,
  openai: (calls) =>
    calls
      .map(
        ({ name, arguments: args }) =>
          `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${json(args)}<|call|>`,
      )
      .join('<|start|>assistant'),
  glm45: (calls) =>
    calls
      .map(({ name, arguments: args }) => {
        const values = Object.entries(args).map(
          ([key, value]) => `<arg_key>${key}</arg_key>\n<arg_value>${bare(value)}</arg_value>\n`,
        );
        return `<tool_call>${name}\n${values.join('')}</tool_call>`;
      })
      .join('\n'),
  gemma4: (calls) =>
    calls.map(({ name, arguments: args }) => `<|tool_call>call:${name}${marked(args)}<tool_call|>`).join(''),
  granite: (calls) => `<|tool_call|>[${calls.map(asObject).join(', ')}]`,
  'granite-20b-fc': (calls) => calls.map((call) => `<function_call> ${asObject(call)}`).join(' '),
  nemotron_json: (calls) => `<TOOLCALL>[${calls.map(asObject).join(', ')}]</TOOLCALL>`,
  apertus: (calls) =>
    `<|tools_prefix|>[${calls.map(({ name, arguments: args }) => `{${json(name)}: ${json(args)}}`).join(', ')}]<|tools_suffix|>`,
  phi4_mini_json: (calls) => `functools[${calls.map(asObject).join(', ')}]`,
};

/** The parser of a format whose name says more. */
export const parserOf = (format: string): string => format.split(' ')[0]!;

/** As `repr` writes it. */
function python(value: unknown): string {
  if (typeof value === 'string') {
    const text = value.replace(
      /[\\'\n\t\r]/g,
      (char) => ({ '\n': '\\n', '\t': '\\t', '\r': '\\r' })[char] ?? `\\${char}`,
    );
    return `'${text}'`;
  }
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    return `{${Object.entries(value)
      .map(([key, one]) => `${python(key)}: ${python(one)}`)
      .join(', ')}}`;
  }
  const words = new Map<unknown, string>([
    [true, 'True'],
    [false, 'False'],
    [null, 'None'],
  ]);
  return words.get(value) ?? json(value);
}

/** With marks around texts, and around keys that are no words. */
function marked(value: unknown): string {
  if (typeof value === 'string') return `<|"|>${value}<|"|>`;
  if (Array.isArray(value)) return `[${value.map(marked).join(',')}]`;
  if (typeof value !== 'object' || value === null) return json(value);
  const key = (name: string): string => (/^[\p{L}\w]+( [\p{L}\w]+)*$/u.test(name) ? name : marked(name));
  const members = Object.entries(value).map(([name, one]) => `${key(name)}:${marked(one)}`);
  return `{${members.join(',')}}`;
}

export const WEATHER: FunctionTool = {
  name: 'get_weather',
  parameters: {
    type: 'object',
    properties: {
      city: { type: 'string' },
      days: { type: 'integer' },
      units: { type: ['string', 'null'] },
      where: { type: 'object' },
      tags: { type: 'array', items: { type: 'string' } },
      isExact: { type: 'boolean' },
    },
    required: ['city'],
  },
};
export const CLOCK: FunctionTool = { name: 'clock.now', parameters: { type: 'object', properties: {} } };
