// Log-probabilities of a real trained model against those of the program that it was published for.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { LLM } from '../../src/index.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';

const FOLDER = sharedFixture('models/stories260K');
/** Golden values are rounded to 1e-6, their program computes in another order. */
const TOLERANCE = 1e-4;

const step = z.object({ token: z.int(), logprob: z.number(), top: z.array(z.tuple([z.int(), z.number()])) });
const goldenShape = z.object({
  cases: z.array(
    z.object({
      prompt_ids: z.array(z.int()),
      prompt_logprobs: z.array(z.number()),
      steps: z.array(step),
    }),
  ),
});

describe('stories260K', needsShared(FOLDER), () => {
  let llm: LLM;
  let cases: z.output<typeof goldenShape>['cases'] = [];
  beforeAll(() => {
    llm = new LLM({ model: FOLDER ?? '', dtype: 'float32' });
    cases = goldenShape.parse(JSON.parse(readFileSync(join(FOLDER ?? '', 'golden.json'), 'utf8'))).cases;
  });
  afterAll(() => llm.close());

  it('gives the golden token, log-probability and ten most probable tokens at every step', async () => {
    expect(cases.length).toBeGreaterThan(0);
    for (const { prompt_ids, steps } of cases) {
      const params = { temperature: 0, ignore_eos: true, logprobs: 10, max_tokens: steps.length };
      const [output] = await llm.generate([prompt_ids], params);
      const { token_ids, logprobs } = output!.outputs[0]!;
      expect(token_ids).toEqual(steps.map(({ token }) => token));
      for (const [index, golden] of steps.entries()) {
        const position = logprobs![index]!;
        expect([...position.keys()]).toEqual(golden.top.map(([id]) => id));
        expect(Math.abs(position.get(golden.token)!.logprob - golden.logprob)).toBeLessThan(TOLERANCE);
        for (const [id, logprob] of golden.top) {
          expect(Math.abs(position.get(id)!.logprob - logprob)).toBeLessThan(TOLERANCE);
        }
      }
    }
  });

  it('gives the golden log-probabilities of the prompts', async () => {
    for (const { prompt_ids, prompt_logprobs } of cases) {
      const [output] = await llm.generate([prompt_ids], {
        temperature: 0,
        prompt_logprobs: 0,
        max_tokens: 1,
      });
      const got = output!
        .prompt_logprobs!.slice(1)
        .map((one, index) => one!.get(prompt_ids[index + 1]!)!.logprob);
      expect(got).toHaveLength(prompt_logprobs.length);
      for (const [index, logprob] of prompt_logprobs.entries()) {
        expect(Math.abs(got[index]! - logprob)).toBeLessThan(TOLERANCE);
      }
    }
  });

  it('joins the texts of the tokens to the text of the answer', async () => {
    const { prompt_ids } = cases[0]!;
    const [output] = await llm.generate([prompt_ids], { temperature: 0, logprobs: 0, max_tokens: 60 });
    const { text, logprobs } = output!.outputs[0]!;
    expect(
      logprobs!
        .map((one) => [...one.values()][0]!.decoded_token)
        .join('')
        .trimStart(),
    ).toBe(text.trimStart());
  });
});
