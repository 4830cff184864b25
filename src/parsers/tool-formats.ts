// The formats of tool calls by their names, and which of them a chat template uses.

import type { ToolCallParserName } from '../config/engine-config.ts';
import type { ToolFormat } from './tool-format.ts';
import { apertus } from './tools/apertus.ts';
import { deepseekV3, deepseekV31 } from './tools/deepseek.ts';
import { minimaxM2, qwen3Coder, seedOss } from './tools/function-tags.ts';
import { gemma4 } from './tools/gemma4.ts';
import { glm45 } from './tools/glm45.ts';
import { granite, granite20bFc } from './tools/granite.ts';
import { harmony } from './tools/harmony.ts';
import { hermes } from './tools/hermes.ts';
import { lfm2 } from './tools/lfm2.ts';
import { llama3Json } from './tools/llama3-json.ts';
import { mistral, mistralNamed } from './tools/mistral.ts';
import { nemotronJson } from './tools/nemotron-json.ts';
import { olmo3 } from './tools/olmo3.ts';
import { phi4Mini, phi4MiniTagged } from './tools/phi4-mini.ts';
import { pythonic } from './tools/pythonic.ts';

/** Some are read in one way, and written as the template shows it. */
const FORMATS: Readonly<
  Record<Exclude<ToolCallParserName, 'none'>, ToolFormat | ((template: string) => ToolFormat)>
> = {
  hermes,
  qwen3_coder: qwen3Coder,
  qwen3_xml: qwen3Coder,
  seed_oss: seedOss,
  minimax_m2: minimaxM2,
  llama3_json: llama3Json,
  llama4_json: llama3Json,
  pythonic,
  llama4_pythonic: pythonic,
  olmo3,
  lfm2,
  mistral: (template) => (template.includes('[ARGS]') ? mistralNamed : mistral),
  deepseek_v3: deepseekV3,
  deepseek_v31: deepseekV31,
  openai: harmony,
  gemma4,
  glm45,
  glm47: glm45,
  granite,
  'granite-20b-fc': granite20bFc,
  nemotron_json: nemotronJson,
  apertus,
  phi4_mini_json: (template) => (template.includes('<|tool_call|>') ? phi4MiniTagged : phi4Mini),
};

/** The first all of whose marks a template has is that of the template. */
const MARKS: readonly (readonly [name: ToolCallParserName, ...marks: string[]])[] = [
  ['openai', '<|channel|>', '<|message|>'],
  ['mistral', '[TOOL_CALLS]'],
  ['deepseek_v3', '<｜tool▁call▁begin｜>', '```json'],
  ['deepseek_v31', '<｜tool▁call▁begin｜>'],
  ['gemma4', '<|tool_call>call:'],
  ['glm45', '<arg_key>'],
  ['seed_oss', '<seed:tool_call>', '<function='],
  ['minimax_m2', '<minimax:tool_call>'],
  ['qwen3_coder', '<function='],
  ['olmo3', '<function_calls>'],
  ['lfm2', '<|tool_call_start|>'],
  ['nemotron_json', '<TOOLCALL>'],
  ['apertus', '<|tools_prefix|>'],
  ['phi4_mini_json', 'functools'],
  ['phi4_mini_json', '<|/tool_call|>'],
  ['granite', '<|tool_call|>'],
  ['granite-20b-fc', '<function_call>'],
  ['hermes', '<tool_call>', '"name"'],
  ['llama3_json', '<|python_tag|>'],
  ['llama3_json', '"parameters": dictionary'],
  ['pythonic', '[func_name1('],
  ['pythonic', '<|python_start|>'],
  // Templates that show no calls, and of which some have no tokens around the tools.
  ['lfm2', '<|im_start|>', 'List of tools: '],
];

/** Null where the template shows no calls, or in a way that no parser reads. */
export function toolCallParserOf(template: string): ToolCallParserName | null {
  return MARKS.find(([, ...marks]) => marks.every((mark) => template.includes(mark)))?.[0] ?? null;
}

export function toolFormat(name: Exclude<ToolCallParserName, 'none'>, template: string): ToolFormat {
  const format = FORMATS[name];
  return typeof format === 'function' ? format(template) : format;
}
