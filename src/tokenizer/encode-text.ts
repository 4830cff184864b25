// The library's encoding of one text, or of two, with its failures as errors about the text.

import { InvalidRequestError, messageOf } from '../errors.ts';
import type { NativeEncoding, NativeTokenizer } from './native-tokenizer.ts';

/**
 * @param pair a second text, behind the first.
 * @throws InvalidRequestError where the library refuses the text.
 */
export async function encodeText(
  native: NativeTokenizer,
  text: string,
  addSpecialTokens: boolean,
  pair: string | null = null,
): Promise<NativeEncoding> {
  try {
    return await native.encode(text, pair, { addSpecialTokens });
  } catch (cause) {
    throw new InvalidRequestError(`the tokenizer of this model cannot encode the text: ${messageOf(cause)}`, {
      cause,
    });
  }
}
