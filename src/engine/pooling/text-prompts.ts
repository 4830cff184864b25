// What a published embedding model wants before a text: its own words for questions, for documents and for other texts.
// Source: `encode`, `encode_query` and `encode_document` of the Sentence Transformers library, https://sbert.net.

import { InvalidRequestError } from '../../errors.ts';
import type { EmbeddingConfig } from '../../models/pooling/pooling-config.ts';
import { preview, shortened } from '../../util/preview.ts';

/** What a text is for; `text` is not said. */
export type TextKind = 'query' | 'document' | 'text';

/** The names that models have for prompts of a kind; the first that there is counts. */
const NAMES: Readonly<Record<TextKind, readonly string[]>> = {
  query: ['query'],
  document: ['document', 'passage', 'corpus'],
  text: [],
};

/** Where the model has no prompt for texts of this kind, the one for all texts, if it has that. */
export function promptOfKind({ prompts: { texts, defaultName } }: EmbeddingConfig, kind: TextKind): string {
  const name = NAMES[kind].find((one) => texts.has(one)) ?? defaultName;
  return name === null ? '' : texts.get(name)!;
}

/**
 * @param name of one of the model's prompts; empty is none, null the model's choice.
 * @throws InvalidRequestError at `param` for a name that the model does not have.
 */
export function promptNamed(config: EmbeddingConfig, name: string | null, param: string): string {
  if (name === '') return '';
  if (name === null) return promptOfKind(config, 'text');
  const { texts } = config.prompts;
  const text = texts.get(name);
  if (text !== undefined) return text;
  const names = [...texts.keys()];
  throw new InvalidRequestError(
    names.length === 0
      ? `${param} must be left out: this model has no prompts, got ${preview(name)}`
      : `${param} must be ${shortened(names.join(', '))}, or empty for none, got ${preview(name)}`,
    { param },
  );
}
