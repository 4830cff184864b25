// Which of several engines computes a prompt: the one that has the least to do once it has the prompt too, where what its prefix
// cache holds need not be done.

import { type Prefixed, PrefixIndex, prefixHashes } from './prefix-index.ts';

export interface RoutedPrompt extends Prefixed {
  /** Sequences of it, which stay together: they share its blocks. */
  readonly numSequences: number;
  /** Whether it may begin with blocks that are there. */
  readonly readsCache: boolean;
}

/** Where a prompt goes. */
export interface Route {
  /** Of the engine. */
  readonly rank: number;
  /** The engine is done with it. Idempotent. */
  leave(): void;
}

export interface RouterConfig {
  readonly numEngines: number;
  readonly blockSize: number;
  /** Of each engine. */
  readonly numBlocks: number;
  readonly enablePrefixCaching: boolean;
}

/** What a sequence is taken for beside its prompt, in tokens of a prompt: answers are of unknown lengths, and cheap in a batch. */
const ANSWER_TOKENS = 128;

interface Engine {
  readonly rank: number;
  readonly prefixes: PrefixIndex;
  /** Tokens of prompts that it was to compute, and answers, of all that has not left. */
  load: number;
}

export class EngineRouter {
  readonly #config: RouterConfig;
  readonly #engines: readonly Engine[];
  /** Whose turn it is among equals. */
  #turn = 0;

  constructor(config: RouterConfig) {
    this.#config = config;
    this.#engines = Array.from({ length: config.numEngines }, (_, rank) => ({
      rank,
      prefixes: new PrefixIndex(config.numBlocks),
      load: 0,
    }));
  }

  /** @param wanted the rank that the client asks for; null leaves the choice. */
  route(prompt: RoutedPrompt, wanted: number | null): Route {
    const { blockSize, enablePrefixCaching } = this.#config;
    const hashes = enablePrefixCaching && prompt.readsCache ? prefixHashes(prompt, blockSize) : [];
    const workOf = ({ prefixes }: Engine): number =>
      prompt.promptTokenIds.length -
      prefixes.numKnown(hashes) * blockSize +
      prompt.numSequences * ANSWER_TOKENS;
    const engine = wanted === null ? this.#least((each) => each.load + workOf(each)) : this.#engines[wanted]!;
    let work = workOf(engine);
    engine.load += work;
    engine.prefixes.add(hashes);
    return {
      rank: engine.rank,
      leave: () => {
        engine.load -= work;
        work = 0;
      },
    };
  }

  /** The engines have forgotten their blocks. */
  forgetPrefixes(): void {
    for (const { prefixes } of this.#engines) prefixes.clear();
  }

  #least(costOf: (engine: Engine) => number): Engine {
    const costs = this.#engines.map(costOf);
    const least = Math.min(...costs);
    const cheapest = this.#engines.filter(({ rank }) => costs[rank] === least);
    const engine = cheapest.find(({ rank }) => rank >= this.#turn) ?? cheapest[0]!;
    this.#turn = engine.rank + 1;
    return engine;
  }
}
