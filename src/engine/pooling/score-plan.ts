// Scores of pairs of texts: a scoring model reads both at once; of an embedding model each text is embedded once, and the
// cosine of the two vectors is the score.

import type { EmbeddingConfig } from '../../models/pooling/pooling-config.ts';
import { yieldTurn } from '../../util/yield-turn.ts';
import type { InferenceEngine } from '../inference-engine.ts';
import type { PoolingOptions, PreparedPooling } from './pooling-input.ts';
import { promptOfKind, type TextKind } from './text-prompts.ts';
import { cosine, toScore } from './vectors.ts';

/** What is to be computed, and what becomes of the numbers. */
export interface ScorePlan {
  readonly prompts: readonly PreparedPooling[];
  /** @param pooled numbers of each prompt. @returns one score a pair. */
  scoresOf(pooled: readonly Float32Array[]): number[];
}

/** Texts with the field that each list came in. */
export interface ScoredTexts {
  /** As many as the second ones, or one for all. */
  readonly first: readonly string[];
  readonly second: readonly string[];
  readonly params: readonly [string, string];
  /** What an embedding model reads each list as. */
  readonly kinds: readonly [TextKind, TextKind];
}

type ScoreOptions = Omit<PoolingOptions, 'param' | 'addSpecialTokens' | 'before'>;

/** @throws InvalidRequestError for a text that is too long, or a model that neither scores nor embeds. */
export async function planScores(
  engine: InferenceEngine,
  texts: ScoredTexts,
  options: ScoreOptions,
): Promise<ScorePlan> {
  const pooling = engine.expectPooling();
  return pooling.task === 'score'
    ? {
        prompts: await preparePairs(engine, texts, options),
        scoresOf: (pooled) => pooled.map((values) => toScore(values, pooling)),
      }
    : planCosines(engine, pooling, texts, options);
}

async function preparePairs(
  engine: InferenceEngine,
  { first, second, params }: ScoredTexts,
  options: ScoreOptions,
): Promise<PreparedPooling[]> {
  const prompts: PreparedPooling[] = [];
  for (const [index, text] of second.entries()) {
    const pair = [first.length === 1 ? first[0]! : first[index]!, text] as const;
    prompts.push(await engine.preparePooling({ pair }, { ...options, param: params[1] }));
    await yieldTurn();
  }
  return prompts;
}

async function planCosines(
  engine: InferenceEngine,
  config: EmbeddingConfig,
  { first, second, params, kinds }: ScoredTexts,
  options: ScoreOptions,
): Promise<ScorePlan> {
  const prompts: PreparedPooling[] = [];
  for (const [index, list] of [first, second].entries()) {
    const of = { ...options, param: params[index]!, before: promptOfKind(config, kinds[index]!) };
    for (const text of list) {
      prompts.push(await engine.preparePooling({ text }, of));
      await yieldTurn();
    }
  }
  const scoresOf = (pooled: readonly Float32Array[]): number[] =>
    second.map((_, index) => cosine(pooled[first.length === 1 ? 0 : index]!, pooled[first.length + index]!));
  return { prompts, scoresOf };
}
