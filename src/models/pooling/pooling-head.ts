// What a decoder multiplies the pooled row by, in the place of its output head.

import type { LinearWeight } from '../../ops/weights.ts';
import type { LoadContext } from '../architecture.ts';
import type { PoolingConfig } from './pooling-config.ts';

/** [numbers, hidden]; null where the row itself is the result. */
export function loadPoolingHead(
  { config, weights, names }: LoadContext,
  pooling: PoolingConfig,
): LinearWeight | null {
  if (pooling.task === 'embed') return null;
  const { hiddenSize, vocabSize, tieWordEmbeddings: isTied } = config;
  if (pooling.head.kind === 'classifier') return weights.classifier('score', 1, hiddenSize, false);
  return weights.rows(isTied ? names.embedding : names.head, vocabSize, pooling.head.tokenIds, hiddenSize);
}
