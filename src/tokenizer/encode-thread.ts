// Entry of the thread that tokenises long texts with a tokenizer of its own: what the library makes of a text is freed on
// the thread that asked for it, and a million tokens take a while to free.

import { workerData } from 'node:worker_threads';
import { Tokenizer } from 'tokenizers';
import { ownMemory, type Result, serveCalls } from '../util/call-thread.ts';
import { encodeText } from './encode-text.ts';
import { type JoinedTexts, joinTexts } from './joined-texts.ts';
import type { NativeEncoding } from './native-tokenizer.ts';

export interface LongText {
  readonly text: string;
  readonly addSpecialTokens: boolean;
  readonly maxTokens: number;
  /** How a text is joined with another; null where it is alone, and refused where it is too long. */
  readonly join: { readonly pair: string | null; readonly isCut: boolean } | null;
}

export interface EncodedText {
  readonly numTokens: number;
  /** False: only a beginning of the text was looked at. */
  readonly isWhole: boolean;
  /** Null where there are more than `maxTokens`. */
  readonly ids: Int32Array | null;
  readonly secondTextStart: number | null;
}

/** Beginnings that are looked at: characters for each token that is wanted, and by how much the next one is longer. */
const PROBED_A_TOKEN = 4;
const GROWTH = 4;
/** A beginning with so many times the tokens that are wanted cannot become few enough by what follows. */
const TOO_MANY = 2;

const { source }: { readonly source: string } = workerData.data;
const native = Tokenizer.fromString(source);
native.disablePadding();
native.disableTruncation();

serveCalls(async (order: LongText): Promise<Result<EncodedText>> => {
  const { text, addSpecialTokens, maxTokens, join } = order;
  const isProbed = join === null || !join.isCut;
  for (
    let length = PROBED_A_TOKEN * Math.max(1, maxTokens);
    isProbed && 2 * length < text.length;
    length *= GROWTH
  ) {
    const probe = text.slice(0, length);
    const numTokens = (await encodeText(native, probe, addSpecialTokens)).getLength();
    if (numTokens > TOO_MANY * maxTokens) return refusal(numTokens, false);
  }
  const encoding = await encodeText(native, text, addSpecialTokens, join?.pair);
  const numTokens = encoding.getLength();
  if (numTokens > maxTokens && !join?.isCut) return refusal(numTokens, true);
  const joined = join === null ? alone(encoding) : joinTexts(encoding, maxTokens);
  if (joined === null) return refusal(numTokens, true);
  return { value: { numTokens, isWhole: true, ...joined }, transferList: ownMemory(joined.ids) };
});

function alone(encoding: NativeEncoding): JoinedTexts {
  return { ids: Int32Array.from(encoding.getIds()), secondTextStart: null };
}

function refusal(numTokens: number, isWhole: boolean): Result<EncodedText> {
  return { value: { numTokens, isWhole, ids: null, secondTextStart: null } };
}
