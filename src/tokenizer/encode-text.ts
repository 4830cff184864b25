// The library's encoding of one text, with its failures as errors about the text.

import type { Encoding, Tokenizer } from 'tokenizers';
import { InvalidRequestError } from '../errors.ts';

/** @throws InvalidRequestError where the library refuses the text. */
export async function encodeText(
  native: Tokenizer,
  text: string,
  options: { readonly addSpecialTokens: boolean },
): Promise<Encoding> {
  const { addSpecialTokens } = options;
  try {
    return await native.encode(text, null, { addSpecialTokens });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new InvalidRequestError(`the tokenizer of this model cannot encode the text: ${reason}`, { cause });
  }
}
