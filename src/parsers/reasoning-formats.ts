// The formats of thoughts by their names, and which of them a chat template uses.

import type { ReasoningParserName } from '../config/engine-config.ts';
import { type ReasoningFormat, tagged } from './reasoning-format.ts';
import { BEGIN as APERTUS_CALL } from './tools/apertus.ts';
import { BEGIN as GEMMA4_CALL } from './tools/gemma4.ts';

const THINK = { begins: ['<think>'], ends: ['</think>'] } as const;

/** GPT-OSS has none of its own: its thoughts are read together with its calls. */
export const REASONING_FORMATS: Readonly<
  Record<Exclude<ReasoningParserName, 'openai_gptoss' | 'none'>, ReasoningFormat>
> = {
  deepseek_r1: tagged({ ...THINK, isImplied: true }),
  qwen3: tagged(THINK),
  glm45: tagged(THINK),
  minimax_m2: tagged(THINK),
  gemma4: tagged({
    begins: ['<|channel>thought\n', '<|channel>thought', '<|channel>'],
    ends: ['<channel|>'],
    cutBy: GEMMA4_CALL,
  }),
  granite: tagged({
    begins: ['<think>', 'Here is my thought process:', "Here's my thought process:"],
    ends: ['</think>', 'Here is my response:', "Here's my response:"],
    answerTags: { begin: '<response>', end: '</response>' },
  }),
  mistral: tagged({ begins: ['[THINK]'], ends: ['[/THINK]'] }),
  seed_oss: tagged({ begins: ['<seed:think>'], ends: ['</seed:think>'] }),
  apertus: tagged({ begins: ['<|inner_prefix|>'], ends: ['<|inner_suffix|>'], cutBy: APERTUS_CALL }),
};

/** The first whose mark a template has is that of the template. */
const MARKS: readonly (readonly [mark: string, name: ReasoningParserName])[] = [
  ['<|channel|>', 'openai_gptoss'],
  ['<|channel>thought', 'gemma4'],
  ['<response>', 'granite'],
  ['my thought process:', 'granite'],
  ['[THINK]', 'mistral'],
  ['<seed:think>', 'seed_oss'],
  ['<|inner_prefix|>', 'apertus'],
  ['</think>', 'qwen3'],
];

/** Null where the template says nothing of thoughts. */
export function reasoningParserOf(template: string): ReasoningParserName | null {
  return MARKS.find(([mark]) => template.includes(mark))?.[1] ?? null;
}
