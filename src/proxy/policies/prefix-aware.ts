// prefix_aware: the instance that has computed the longest beginning of the prompt, unless it is much busier than others.

import { BLOCK_TOKENS, type PromptShape } from '../endpoints/prompt.ts';
import { LeastLoaded } from './least-loaded.ts';
import type { Candidate, Policy } from './policy.ts';
import { PrefixTrie } from './prefix-trie.ts';

/** An instance with more requests than this above the least loaded one is not worth the wait for a known beginning. */
const MAX_IMBALANCE = 8;

export class PrefixAware implements Policy {
  readonly #trie = new PrefixTrie();
  readonly #byLoad = new LeastLoaded();

  pick<C extends Candidate>(candidates: readonly C[], { blockHashes }: PromptShape): C {
    const least = candidates.reduce((min, { numRequests }) => Math.min(min, numRequests), Infinity);
    const free = candidates.filter(({ numRequests }) => numRequests <= least + MAX_IMBALANCE);
    const depths = this.#trie.depths(blockHashes);
    const deepest = Math.max(...free.map(({ run }) => depths.get(run) ?? 0));
    return this.#byLoad.pick(free.filter(({ run }) => (depths.get(run) ?? 0) === deepest));
  }

  knownTokens({ run }: Candidate, { blockHashes }: PromptShape): number {
    return (this.#trie.depths(blockHashes).get(run) ?? 0) * BLOCK_TOKENS;
  }

  served({ run }: Candidate, { blockHashes }: PromptShape): void {
    this.#trie.add(blockHashes, run);
  }
}
