// Log-probabilities of a completion's choice in the protocol's four parallel lists. One writer a choice, because offsets
// go on from chunk to chunk.

import type { PositionLogprobs, PreparedRequest, TokenLogprob } from '../../engine/inference-engine.ts';
import { lazyList } from '../../http/json-pieces.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { finiteLogprob, tokenText } from '../logprobs.ts';
import type { Echo } from '../response-options.ts';
import { countCharacters, TextOffsets } from './text-offsets.ts';

interface CompletionLogprobsOptions {
  readonly tokenizer: Tokenizer | null;
  readonly prompt: PreparedRequest;
  /** Null where the answer does not repeat the prompt. */
  readonly echo: Echo | null;
  readonly areTokensIds: boolean;
}

/** A token, the log-probabilities at its position, and who knows its offset in the text. */
interface Entry {
  readonly tokenId: number;
  readonly position: PositionLogprobs | null;
  readonly offsets: TextOffsets;
}

export class CompletionLogprobsWriter {
  readonly #options: CompletionLogprobsOptions;
  readonly #offsets: TextOffsets;

  constructor(options: CompletionLogprobsOptions) {
    const { tokenizer, prompt, echo } = options;
    const { skip_special_tokens, spaces_between_special_tokens } = prompt.params;
    this.#options = options;
    const decoding = {
      skipSpecialTokens: skip_special_tokens,
      spacesBetweenSpecialTokens: spaces_between_special_tokens,
      promptTokenIds: prompt.promptTokenIds,
    };
    this.#offsets = new TextOffsets(tokenizer, decoding, countCharacters(echo?.text ?? ''));
  }

  /**
   * Lists of the next tokens of the answer, after those of the prompt where its log-probabilities are given: the first
   * of them is null. Offsets count characters (code points). Each list is to be read once, before those of the next call.
   */
  lists(ofPrompt: readonly (PositionLogprobs | null)[] | null, ofAnswer: readonly PositionLogprobs[]) {
    const entries = (): Iterable<Entry> => this.#entries(ofPrompt, ofAnswer);
    return {
      text_offset: lazyList(entries(), ({ offsets, tokenId }) => offsets.next(tokenId)),
      token_logprobs: lazyList(entries(), ({ position }) => position && finiteLogprob(position.logprob)),
      tokens: lazyList(entries(), ({ tokenId }) => this.#text(tokenId)),
      top_logprobs: lazyList(entries(), ({ position }) => position && this.#byText(position)),
    };
  }

  *#entries(
    ofPrompt: readonly (PositionLogprobs | null)[] | null,
    ofAnswer: readonly PositionLogprobs[],
  ): Generator<Entry> {
    if (ofPrompt !== null) {
      const { tokenizer, prompt, echo } = this.#options;
      const skipSpecialTokens = echo?.skipsSpecialTokens ?? true;
      const offsets = new TextOffsets(tokenizer, { skipSpecialTokens, promptTokenIds: [] }, 0);
      for (const [at, tokenId] of prompt.promptTokenIds.entries()) {
        yield { tokenId, position: ofPrompt[at] ?? null, offsets };
      }
    }
    const offsets = this.#offsets;
    for (const position of ofAnswer) yield { tokenId: position.tokenId, position, offsets };
  }

  /** The most probable ones and the token itself; of equal texts the token's own, then the more probable. */
  #byText(position: PositionLogprobs): Record<string, number> {
    const byText = new Map<string, number>();
    const textOf = (one: TokenLogprob): string => tokenText(one, this.#options.areTokensIds);
    for (const one of position.top) {
      const text = textOf(one);
      if (!byText.has(text)) byText.set(text, finiteLogprob(one.logprob));
    }
    byText.set(textOf(position), finiteLogprob(position.logprob));
    return Object.fromEntries(byText);
  }

  #text(tokenId: number): string {
    const token = this.#options.tokenizer?.describe(tokenId) ?? null;
    return tokenText({ tokenId, token }, this.#options.areTokensIds);
  }
}
