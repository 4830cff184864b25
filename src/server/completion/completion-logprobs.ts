// Log-probabilities of a completion's choice in the protocol's four parallel lists. One writer a choice, because offsets
// go on from chunk to chunk.

import type { PositionLogprobs, PreparedRequest, TokenLogprob } from '../../engine/inference-engine.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { finiteLogprob, tokenText } from '../logprobs.ts';
import type { CompletionLogprobs } from '../protocol/completion.ts';
import type { Echo } from '../response-options.ts';
import { countCharacters, TextOffsets } from './text-offsets.ts';

interface CompletionLogprobsOptions {
  readonly tokenizer: Tokenizer | null;
  readonly prompt: PreparedRequest;
  /** Null where the answer does not repeat the prompt. */
  readonly echo: Echo | null;
  readonly areTokensIds: boolean;
}

/** A token, its offset in the text, and the log-probabilities at its position. */
interface Entry {
  readonly offset: number;
  readonly token: string;
  readonly position: PositionLogprobs | null;
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

  /** The tokens of the prompt, the first of which has no log-probability. */
  prompt(positions: readonly (PositionLogprobs | null)[]): CompletionLogprobs {
    const { tokenizer, prompt, echo } = this.#options;
    const skipSpecialTokens = echo?.skipsSpecialTokens ?? true;
    const offsets = new TextOffsets(tokenizer, { skipSpecialTokens, promptTokenIds: [] }, 0);
    const entries = prompt.promptTokenIds.map((id, at): Entry => {
      const position = positions[at] ?? null;
      return { offset: offsets.next(id), token: this.#text(id), position };
    });
    return this.#lists(entries);
  }

  /** The next tokens of the answer. */
  next(positions: readonly PositionLogprobs[]): CompletionLogprobs {
    const entries = positions.map((position): Entry => {
      const { tokenId } = position;
      return { offset: this.#offsets.next(tokenId), token: this.#text(tokenId), position };
    });
    return this.#lists(entries);
  }

  #lists(entries: readonly Entry[]): CompletionLogprobs {
    return {
      text_offset: entries.map(({ offset }) => offset),
      token_logprobs: entries.map(({ position }) => position && finiteLogprob(position.logprob)),
      tokens: entries.map(({ token }) => token),
      top_logprobs: entries.map(({ position }) => position && this.#byText(position)),
    };
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

/** Two runs of tokens, one after the other. */
export function joinLogprobs(first: CompletionLogprobs, second: CompletionLogprobs): CompletionLogprobs {
  return {
    text_offset: [...first.text_offset, ...second.text_offset],
    token_logprobs: [...first.token_logprobs, ...second.token_logprobs],
    tokens: [...first.tokens, ...second.tokens],
    top_logprobs: [...first.top_logprobs, ...second.top_logprobs],
  };
}
