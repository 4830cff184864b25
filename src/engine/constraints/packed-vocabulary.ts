// The vocabulary of a model as constraints see it, in memory that the engine thread shares.

import type { PackedVocabulary } from '../../scheduler/automata.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { packShared } from '../../util/shared-value.ts';

/** As many tokens as the model has logits. */
export async function packVocabulary(
  tokenizer: Tokenizer,
  { vocabSize, eosTokenIds }: { readonly vocabSize: number; readonly eosTokenIds: readonly number[] },
): Promise<SharedArrayBuffer> {
  const { bytes, starts } = await tokenizer.tokenBytes();
  const endTokenIds = eosTokenIds.filter((id) => id < vocabSize);
  const ownStarts = Int32Array.from({ length: vocabSize + 1 }, (_, id) => starts[id] ?? bytes.length);
  const packed: PackedVocabulary = { bytes, starts: ownStarts, endTokenIds };
  return packShared(packed);
}
