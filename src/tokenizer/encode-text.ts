// The library's encoding of one text, or of two, with its failures as errors about the text.

import type { Encoding, Tokenizer } from 'tokenizers';
import { InvalidRequestError, messageOf } from '../errors.ts';

/**
 * @param pair a second text, behind the first.
 * @throws InvalidRequestError where the library refuses the text.
 */
export async function encodeText(
  native: Tokenizer,
  text: string,
  addSpecialTokens: boolean,
  pair: string | null = null,
): Promise<Encoding> {
  try {
    return await native.encode(text, pair, { addSpecialTokens });
  } catch (cause) {
    throw new InvalidRequestError(`the tokenizer of this model cannot encode the text: ${messageOf(cause)}`, {
      cause,
    });
  }
}
