import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { answerReader } from '../../src/parsers/answer-formats.ts';
import { answerOf } from '../../src/parsers/answer-parts.ts';
import { reasoningParserOf } from '../../src/parsers/reasoning-formats.ts';
import { toolCallParserOf } from '../../src/parsers/tool-formats.ts';
import { needs } from '../helpers/needs.ts';
import { formatsOf, type ParseOptions, parse } from './parse.ts';
import { WEATHER } from './written-calls.ts';

const CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>';
const HARMONY =
  '<|channel|>analysis<|message|>\nHm. <|end|><|start|>assistant<|channel|>commentary<|message|>Wait.<|end|>' +
  '<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Rome"}';
const THOUGHT_AND_CALL = {
  content: null,
  reasoning: 'Hm.',
  calls: [{ name: 'get_weather', arguments: '{"city": "Rome"}' }],
};

interface Case {
  readonly reasoning: string;
  readonly tools?: string;
  readonly text: string;
  readonly prompt?: string;
  readonly expected: ReturnType<typeof answerOf>;
}

const said = (reasoning: string | null, content: string | null) => ({ reasoning, content, calls: [] });

const CASES: Readonly<Record<string, Case>> = {
  'a thought and an answer': {
    reasoning: 'qwen3',
    text: '<think>\n2+2\n\nis 4\n</think>\n\n4. \n',
    expected: said('2+2\n\nis 4', '4. \n'),
  },
  'an answer of several words': {
    reasoning: 'qwen3',
    text: '<think>Hm.</think>\n\nIt is\n 4.',
    expected: said('Hm.', 'It is\n 4.'),
  },
  'an answer without a thought': {
    reasoning: 'qwen3',
    text: ' <thin ice> 4',
    expected: said(null, ' <thin ice> 4'),
  },
  'an empty thought': { reasoning: 'qwen3', text: '<think>\n\n</think>\n\n4', expected: said(null, '4') },
  'a thought that the prompt began': {
    reasoning: 'qwen3',
    prompt: '<|a|><think>\n',
    text: 'Hm.</think>4',
    expected: said('Hm.', '4'),
  },
  'a thought that the prompt ended': {
    reasoning: 'deepseek_r1',
    prompt: '<think>\n\n</think>\n\n',
    text: '4</think>',
    expected: said(null, '4</think>'),
  },
  'a thought that nothing began': {
    reasoning: 'deepseek_r1',
    prompt: 'x',
    text: 'Hm.\n</think>\n4',
    expected: said('Hm.', '4'),
  },
  'a thought without an end': {
    reasoning: 'qwen3',
    text: '<think>Hm. </thi',
    expected: said('Hm. </thi', null),
  },
  'a thought and no answer': {
    reasoning: 'qwen3',
    text: '<think>Hm.</think>\n',
    expected: said('Hm.', null),
  },
  'a call within a thought': {
    reasoning: 'qwen3',
    tools: 'hermes',
    text: `<think>${CALL}</think>4`,
    expected: said(CALL, '4'),
  },
  'a call after a thought': {
    reasoning: 'qwen3',
    tools: 'hermes',
    text: `<think>Hm.</think>\n\n${CALL}`,
    expected: THOUGHT_AND_CALL,
  },
  GLM: { reasoning: 'glm45', text: '\n<think>Hm.</think>\n4', expected: said('Hm.', '4') },
  'Granite in words': {
    reasoning: 'granite',
    text: "Here's my thought process: Hm. Here is my response: 4",
    expected: said('Hm.', '4'),
  },
  'Granite in tags': {
    reasoning: 'granite',
    text: '<think>Hm.</think><response>4</response>',
    expected: said('Hm.', '4'),
  },
  'Gemma 4': {
    reasoning: 'gemma4',
    text: '<|channel>thought\nHm.\n<channel|>4',
    expected: said('Hm.', '4'),
  },
  'an empty thought of Gemma 4': {
    reasoning: 'gemma4',
    text: '<|channel>thought\n<channel|>4',
    expected: said(null, '4'),
  },
  'a thought of Gemma 4 without its name': {
    reasoning: 'gemma4',
    text: '<|channel>Hm.<channel|>4',
    expected: said('Hm.', '4'),
  },
  'a thought of Gemma 4 that the prompt began': {
    reasoning: 'gemma4',
    prompt: '<|turn>model\n<|channel>thought\n',
    text: 'Hm.\n<channel|>4',
    expected: said('Hm.', '4'),
  },
  'a thought of Gemma 4 that a call ends': {
    reasoning: 'gemma4',
    tools: 'gemma4',
    text: '<|channel>thought\nHm.<|tool_call>call:get_weather{city:<|"|>Rome<|"|>}<tool_call|>',
    expected: THOUGHT_AND_CALL,
  },
  Apertus: {
    reasoning: 'apertus',
    text: '<|inner_prefix|>Hm.<|inner_suffix|>4',
    expected: said('Hm.', '4'),
  },
  'a thought of Apertus that a call ends': {
    reasoning: 'apertus',
    tools: 'apertus',
    text: '<|inner_prefix|>Hm.<|tools_prefix|>[{"get_weather": {"city": "Rome"}}]<|tools_suffix|>',
    expected: THOUGHT_AND_CALL,
  },
  Mistral: { reasoning: 'mistral', text: '[THINK]Hm.[/THINK]4', expected: said('Hm.', '4') },
  Seed: { reasoning: 'seed_oss', text: '<seed:think>Hm.</seed:think>4', expected: said('Hm.', '4') },
  harmony: {
    reasoning: 'openai_gptoss',
    text: '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|> 4',
    expected: said('Hm.', '4'),
  },
  'harmony with a call': {
    reasoning: 'openai_gptoss',
    tools: 'openai',
    text: HARMONY,
    expected: { ...THOUGHT_AND_CALL, content: 'Wait.' },
  },
};

describe('thoughts', () => {
  it.each(Object.keys(CASES))('reads %s, wherever the stream is cut', (name) => {
    const { reasoning, tools = 'none', text, prompt = '', expected } = CASES[name]!;
    const formats = formatsOf(tools, reasoning);
    const options: ParseOptions = { prompt, tools: [WEATHER] };
    expect(answerOf(parse(formats, [...text], options))).toEqual(expected);
    for (let cut = 0; cut <= text.length; cut++) {
      const pieces = [text.slice(0, cut), text.slice(cut)];
      expect(answerOf(parse(formats, pieces, options)), `cut at ${cut}`).toEqual(expected);
    }
  });
});

it.each([
  ['qwen3', '<think>Hm. '],
  ['openai_gptoss', '<|channel|>analysis<|message|>Hm. '],
])('a model that %s reads still thinks where its answer ends in a thought', (reasoning, text) => {
  const options = { prompt: '', tools: [], maxCalls: 1, isEnforced: false, customNames: new Set<string>() };
  const parser = answerReader(formatsOf('none', reasoning), options)!.open();
  const parts = [...parser.push(text), ...parser.finish(true)];
  expect(parser.isReasoning).toBe(true);
  expect(answerOf(parts)).toEqual(said('Hm.', null));
});

it('a model thinks from its first token on where the prompt has begun a thought', () => {
  const options = { tools: [], maxCalls: 1, isEnforced: false, customNames: new Set<string>() };
  const begun = (prompt: string): boolean =>
    answerReader(formatsOf('none', 'qwen3'), { ...options, prompt })!.open().isReasoning;
  expect(begun('<think>\n')).toBe(true);
  expect(begun('')).toBe(false);
});

const FOLDER = '../shared/fixtures/chat-templates/templates';
const TEMPLATES: Readonly<Record<string, readonly [tools: string | null, reasoning: string | null]>> = {
  'chat_templates/chatml': [null, null],
  'chat_templates/qwen2.5-instruct': ['hermes', null],
  'llama.cpp/Qwen-Qwen3-0.6B': ['hermes', 'qwen3'],
  'llama.cpp/Qwen-QwQ-32B': ['hermes', 'qwen3'],
  'llama.cpp/Qwen3.5-4B': ['qwen3_coder', 'qwen3'],
  'llama.cpp/ByteDance-Seed-OSS': ['seed_oss', 'seed_oss'],
  'llama.cpp/NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use': ['hermes', null],
  'llama.cpp/meta-llama-Llama-3.1-8B-Instruct': ['llama3_json', null],
  'vllm/tool_chat_template_llama3.2_json': ['llama3_json', null],
  'vllm/tool_chat_template_llama3.2_pythonic': ['pythonic', null],
  'llama.cpp/mistralai-Mistral-Nemo-Instruct-2407': ['mistral', null],
  'llama.cpp/mistralai-Ministral-3-14B-Reasoning-2512': ['mistral', 'mistral'],
  'trl/deepseekv3': ['deepseek_v3', 'qwen3'],
  'llama.cpp/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B': ['deepseek_v3', 'qwen3'],
  'llama.cpp/openai-gpt-oss-120b': ['openai', 'openai_gptoss'],
  'trl/glm4moe': ['glm45', 'qwen3'],
  'llama.cpp/GLM-4.7-Flash': ['glm45', 'qwen3'],
  'llama.cpp/ibm-granite-granite-3.3-2B-Instruct': ['granite', 'granite'],
  'llama.cpp/LFM2-8B-A1B': ['lfm2', null],
  'llama.cpp/Apertus-8B-Instruct': ['apertus', 'apertus'],
  'trl/lfm2_2_5': ['lfm2', 'qwen3'],
  'trl/nemotron_3_super': ['qwen3_coder', 'qwen3'],
  'llama.cpp/google-gemma-2-2b-it': [null, null],
  // Gemma 3n has the same, with marks of sounds.
  'trl/gemma3': [null, null],
  'llama.cpp/google-gemma-4-31B-it-interleaved': ['gemma4', 'gemma4'],
  'trl/diffusion_gemma': ['gemma4', 'gemma4'],
};

describe('published chat templates', needs(existsSync(FOLDER), 'there is no ../shared/fixtures'), () => {
  it.each(Object.keys(TEMPLATES))('tell the formats of %s', (name) => {
    const source = readFileSync(`${FOLDER}/${name}.jinja`, 'utf8');
    expect([toolCallParserOf(source), reasoningParserOf(source)]).toEqual(TEMPLATES[name]);
  });
});
