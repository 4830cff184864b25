// Where a model is read from: its configuration, its tokenizer's files and its tensors, in whatever they are published.

import type { ModelFiles } from '../../util/model-files.ts';
import type { Checkpoint } from './checkpoint.ts';

export interface ModelSource extends ModelFiles {
  /**
   * Reads where each tensor is, and no weight.
   * @throws ModelLoadError where there are no weights, or their files are not what they say.
   */
  openCheckpoint(): Checkpoint;
  /**
   * Names what the model computes, in hex.
   * @throws ModelLoadError where there are no weights.
   */
  fingerprint(): string;
}
