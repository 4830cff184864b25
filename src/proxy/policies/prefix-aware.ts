// prefix_aware: who has computed the longest beginning of the prompt, unless it has much more to do than others.

import type { PromptShape } from '../prompt.ts';
import { PIECE_TOKENS } from '../prompt.ts';
import { LeastLoaded } from './least-loaded.ts';
import type { Candidate, Policy } from './policy.ts';
import { PrefixTrie } from './prefix-trie.ts';

/** Requests more than the least loaded one has, beyond which a known beginning is not worth the wait. */
const MAX_IMBALANCE = 8;

export class PrefixAware implements Policy {
  readonly #trie = new PrefixTrie();
  readonly #byLoad = new LeastLoaded();

  pick<C extends Candidate>(candidates: readonly C[], { pieces }: PromptShape): C {
    const least = candidates.reduce((min, { numRequests }) => Math.min(min, numRequests), Infinity);
    const free = candidates.filter(({ numRequests }) => numRequests <= least + MAX_IMBALANCE);
    const depths = this.#trie.depths(pieces);
    const deepest = Math.max(...free.map(({ run }) => depths.get(run) ?? 0));
    return this.#byLoad.pick(free.filter(({ run }) => (depths.get(run) ?? 0) === deepest));
  }

  knownTokens({ run }: Candidate, { pieces }: PromptShape): number {
    return (this.#trie.depths(pieces).get(run) ?? 0) * PIECE_TOKENS;
  }

  served({ run }: Candidate, { pieces }: PromptShape): void {
    this.#trie.add(pieces, run);
  }
}
