// What quantised weights change in the predictions of the bundled model and of the real trained one among the fixtures, on
// texts that they wrote themselves.

import { comparePrecision } from '../src/cli/bench/quality.ts';
import { QUANTIZATIONS, type Quantization } from '../src/config/engine-config.ts';
import { toEngineConfig } from '../src/config/llm-options.ts';
import { LLM } from '../src/index.ts';
import { modelFolder } from '../src/models/model-folder.ts';
import { STORIES_260K } from './goldens.ts';
import type { Figure, Section } from './report.ts';

const PROMPTS = ['Once upon a time', 'Hello! How are', 'The dog'];
const NUM_TEXTS = 16;
const MAX_TOKENS = 250;

export async function qualitySection(): Promise<Section> {
  const models = [['svc-chat', await modelFolder('')]];
  if (STORIES_260K !== null) models.push(['stories260K', STORIES_260K.folder]);
  const figures: Figure[] = [];
  for (const [name, folder] of models) {
    const tokens = await write(folder!);
    for (const scheme of QUANTIZATIONS) figures.push(...(await judge(name!, folder!, scheme, tokens)));
  }
  return { title: 'Quality of quantised weights', figures };
}

async function judge(
  name: string,
  model: string,
  scheme: Quantization,
  tokens: readonly number[],
): Promise<Figure[]> {
  const quality = await comparePrecision(
    toEngineConfig({ model }),
    { quantization: scheme, kvCacheDtype: 'auto' },
    tokens,
  );
  const { numTokens, meanKl, agreement, perplexity } = quality;
  const about = `${name}, ${scheme}, ${numTokens} tokens`;
  const isHeldToGoals = scheme === 'int8';
  const relative = (100 * perplexity.actual) / perplexity.expected - 100;
  return [
    {
      name: `${about}: mean KL divergence`,
      value: meanKl,
      unit: '',
      limit: null,
      goal: isHeldToGoals ? '< 0.01' : null,
    },
    {
      name: `${about}: same most probable token`,
      value: 100 * agreement,
      unit: '%',
      limit: null,
      goal: isHeldToGoals ? '> 97' : null,
    },
    {
      name: `${about}: perplexity above that of the published weights`,
      value: relative,
      unit: '%',
      limit: null,
      goal: null,
    },
  ];
}

/** Texts of the model's own, one after the other. */
async function write(model: string): Promise<number[]> {
  const llm = new LLM({ model });
  try {
    const params = { temperature: 1, max_tokens: MAX_TOKENS, n: NUM_TEXTS, seed: 1 };
    const requests = await llm.generate(PROMPTS, params);
    return requests.flatMap(({ prompt_token_ids, outputs }) =>
      outputs.flatMap(({ token_ids }) => [...prompt_token_ids, ...token_ids]),
    );
  } finally {
    await llm.close();
  }
}
