// The library's encoding of one text, with its failures as errors about the text.

import type { Encoding, Tokenizer } from 'tokenizers';
import { InvalidRequestError, messageOf } from '../errors.ts';

/** @throws InvalidRequestError where the library refuses the text. */
export async function encodeText(
  native: Tokenizer,
  text: string,
  addSpecialTokens: boolean,
): Promise<Encoding> {
  try {
    return await native.encode(text, null, { addSpecialTokens });
  } catch (cause) {
    throw new InvalidRequestError(`the tokenizer of this model cannot encode the text: ${messageOf(cause)}`, {
      cause,
    });
  }
}
