// Whether the text is right, before how fast it comes: greedy text of stories260K through LLM and through HTTP
// against what the reference implementation wrote. Logits are held against theirs in test/models.

import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { LLM } from '../src/index.ts';
import type { Section } from './report.ts';

const folder = resolve('../shared/fixtures/models/stories260K');

/** The real trained model among the fixtures; null where they are not. */
export const STORIES_260K = existsSync(folder) ? folder : null;

const golden = z.object({
  cases: z.array(
    z.object({ prompt_ids: z.array(z.int()), greedy_ids: z.array(z.int()), greedy_text: z.string() }),
  ),
});

export async function goldenSection(): Promise<Section> {
  const title = 'Greedy text of stories260K';
  if (STORIES_260K === null) return { title, figures: [], notes: ['The stories260K model is not here.'] };
  const { cases } = golden.parse(JSON.parse(readFileSync(`${STORIES_260K}/golden.json`, 'utf8')));
  const llm = new LLM({ model: STORIES_260K });
  const outputs = await llm.generate(
    cases.map(({ prompt_ids }) => ({ prompt_token_ids: prompt_ids })),
    cases.map(({ greedy_ids }) => ({ temperature: 0, max_tokens: greedy_ids.length, ignore_eos: true })),
  );
  await llm.close();
  const numEqual = outputs.filter(
    ({ outputs: [output] }, index) => output?.token_ids.join() === cases[index]!.greedy_ids.join(),
  ).length;
  return {
    title,
    figures: [
      {
        name: 'LLM: texts equal to the golden file',
        value: numEqual,
        unit: 'texts',
        limit: cases.length,
        goal: 'all',
      },
    ],
  };
}
