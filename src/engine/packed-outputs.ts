// The outputs of a step as they cross the threads: numbers in one array, since a message makes each of its objects anew, at
// several times the cost of all else that a token costs the main thread. What few outputs have goes beside them.

import type { TokenOutput } from '../scheduler/scheduler.ts';

export interface PackedOutputs {
  /** [outputs, 3] Request, token or NO_TOKEN, prompt tokens from the prefix cache: ids of requests outgrow 32 bits. */
  readonly rows: Float64Array;
  /** By the number of the output. */
  readonly extras: ReadonlyMap<number, OutputExtras>;
}

type OutputExtras = Omit<TokenOutput, 'requestId' | 'tokenIds' | 'numCachedTokens'>;

const ROW = 3;
const NO_TOKEN = -1;

export function packOutputs(outputs: readonly TokenOutput[]): PackedOutputs {
  const rows = new Float64Array(outputs.length * ROW);
  const extras = new Map<number, OutputExtras>();
  for (const [index, { requestId, tokenIds, numCachedTokens, ...extra }] of outputs.entries()) {
    rows[index * ROW] = requestId;
    rows[index * ROW + 1] = tokenIds[0] ?? NO_TOKEN;
    rows[index * ROW + 2] = numCachedTokens;
    if (Object.values(extra).some((value) => value !== null)) extras.set(index, extra);
  }
  return { rows, extras };
}

/** In their order. */
export function* unpackOutputs({ rows, extras }: PackedOutputs): Generator<TokenOutput, void, undefined> {
  for (let index = 0; index * ROW < rows.length; index += 1) {
    const tokenId = rows[index * ROW + 1]!;
    const output = {
      requestId: rows[index * ROW]!,
      tokenIds: tokenId === NO_TOKEN ? [] : [tokenId],
      numCachedTokens: rows[index * ROW + 2]!,
      logprobs: null,
      promptLogprobs: null,
      admission: null,
      finish: null,
    };
    const extra = extras.get(index);
    yield extra === undefined ? output : { ...output, ...extra };
  }
}
