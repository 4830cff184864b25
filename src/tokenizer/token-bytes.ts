// The bytes that one token adds to a text, for log-probabilities: joined, those of an answer are its text.

import type { SimpleDecoderSpec } from './decoder-spec.ts';
import { buildStages, byteLevelBytes, fallbackByte } from './decoder-stages.ts';
import { chainStages, type TokenTable } from './incremental-detokenizer.ts';
import type { TokenDescription } from './tokenizer.ts';

/** Any word: put before the token, so that the token is not the first of its text. */
const WORD_BEFORE = 'a';

export function describeToken(
  table: TokenTable,
  decoder: readonly SimpleDecoderSpec[] | null,
  id: number,
): TokenDescription {
  const token = table.texts[id];
  if (token === undefined) return { text: '', bytes: new Uint8Array(0) };
  const isPlain = table.addedIds.has(id);
  const bytes = Buffer.from((isPlain ? null : rawBytes(token, decoder)) ?? textAfterWord(token, decoder));
  return { text: bytes.toString('utf8'), bytes: new Uint8Array(bytes) };
}

/** The bytes of a token that may be a part of a character; null where it is text. */
function rawBytes(token: string, decoder: readonly SimpleDecoderSpec[] | null): number[] | null {
  if (decoder?.some(({ type }) => type === 'ByteLevel')) return byteLevelBytes(token);
  const byte = decoder?.some(({ type }) => type === 'ByteFallback') ? fallbackByte(token) : null;
  return byte === null ? null : [byte];
}

function textAfterWord(token: string, decoder: readonly SimpleDecoderSpec[] | null): string {
  return decode([WORD_BEFORE, token], decoder).slice(decode([WORD_BEFORE], decoder).length);
}

function decode(tokens: readonly string[], decoder: readonly SimpleDecoderSpec[] | null): string {
  let text = '';
  const stages = buildStages(decoder);
  const sinks = chainStages(stages, (piece) => {
    text += piece;
  });
  for (const token of tokens) sinks[0]!(token);
  for (const [i, stage] of stages.entries()) stage.end?.(sinks[i + 1]!);
  return text;
}
