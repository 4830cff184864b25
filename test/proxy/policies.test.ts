import { describe, expect, it } from 'vitest';
import { POLICIES } from '../../src/config/proxy-options.ts';
import { chatCompletions } from '../../src/proxy/endpoints/chat-completions.ts';
import { completions } from '../../src/proxy/endpoints/completions.ts';
import type { JsonObject } from '../../src/proxy/endpoints/endpoint.ts';
import { countTokens, messages } from '../../src/proxy/endpoints/messages.ts';
import { BLOCK_TOKENS, Prompt, type PromptShape } from '../../src/proxy/endpoints/prompt.ts';
import { inputTokens, responses } from '../../src/proxy/endpoints/responses.ts';
import { makePolicy } from '../../src/proxy/policies/make-policy.ts';
import { PrefixAware } from '../../src/proxy/policies/prefix-aware.ts';
import { PrefixTrie } from '../../src/proxy/policies/prefix-trie.ts';

/** A candidate whose load a test can change. */
interface Place {
  ordinal: number;
  run: number;
  numRequests: number;
}

function places(count: number): Place[] {
  return Array.from({ length: count }, (_, index) => ({ ordinal: index, run: 100 + index, numRequests: 0 }));
}

/** Token ids from `from` on, so many full blocks. */
function promptOf(from: number, numBlocks: number): Prompt {
  const ids = Int32Array.from({ length: numBlocks * BLOCK_TOKENS }, (_, index) => from + index);
  return new Prompt(1, ids.length, () => ids);
}

describe.each(POLICIES)('%s', (name) => {
  it('picks one of those that it is given, also the only one', () => {
    const policy = makePolicy(name);
    const all = places(5);
    for (let round = 0; round < 50; round += 1) expect(all).toContain(policy.pick(all, promptOf(round, 2)));
    expect(policy.pick([all[3]!], promptOf(0, 1))).toBe(all[3]);
  });

  it('gives everybody something to do', () => {
    const policy = makePolicy(name);
    const all = places(4);
    const picked = new Set<Place>();
    for (let round = 0; round < 400; round += 1) {
      const one = policy.pick(all, promptOf(1000 * round, 2));
      one.numRequests += 1;
      policy.served?.(one, promptOf(1000 * round, 2));
      picked.add(one);
    }
    expect(picked.size).toBe(4);
  });
});

describe('round_robin', () => {
  it('keeps the turn of the others when one leaves or joins', () => {
    const policy = makePolicy('round_robin');
    const [a, b, c, d] = places(4);
    const prompt = promptOf(0, 1);
    const turn = (...able: (Place | undefined)[]) =>
      policy.pick(
        able.filter((one) => one !== undefined),
        prompt,
      );
    expect([turn(a, b, c), turn(a, b, c)]).toEqual([a, b]);
    expect(turn(a, c)).toBe(c);
    expect(turn(a, c, d)).toBe(d);
    expect(turn(a, b, c, d)).toBe(a);
  });
});

describe('least_loaded', () => {
  it('takes who has least, equals in their turn', () => {
    const policy = makePolicy('least_loaded');
    const all = places(3);
    all[1]!.numRequests = 1;
    const picked = [0, 1, 2, 3].map(() => policy.pick(all, promptOf(0, 1)).ordinal);
    expect(picked).toEqual([0, 2, 0, 2]);
    all[0]!.numRequests = 9;
    all[2]!.numRequests = 9;
    expect(policy.pick(all, promptOf(0, 1))).toBe(all[1]);
  });
});

describe('prefix_aware', () => {
  it('takes who has the longest beginning of the prompt, and knows how long that is', () => {
    const policy = new PrefixAware();
    const all = places(3);
    policy.served(all[1]!, promptOf(0, 4));
    policy.served(all[2]!, promptOf(0, 2));
    expect(policy.pick(all, promptOf(0, 6))).toBe(all[1]);
    expect(policy.knownTokens(all[1]!, promptOf(0, 6))).toBe(4 * BLOCK_TOKENS);
    expect(policy.knownTokens(all[2]!, promptOf(0, 6))).toBe(2 * BLOCK_TOKENS);
    expect(policy.knownTokens(all[0]!, promptOf(0, 6))).toBe(0);
    expect(policy.knownTokens(all[1]!, promptOf(1, 6))).toBe(0);
  });

  it('takes another one where the one that knows the prompt has far more to do', () => {
    const policy = new PrefixAware();
    const all = places(2);
    policy.served(all[0]!, promptOf(0, 4));
    all[0]!.numRequests = 8;
    expect(policy.pick(all, promptOf(0, 4))).toBe(all[0]);
    all[0]!.numRequests = 9;
    expect(policy.pick(all, promptOf(0, 4))).toBe(all[1]);
  });

  it('forgets what an earlier run of an instance had', () => {
    const policy = new PrefixAware();
    const all = places(2);
    policy.served(all[1]!, promptOf(0, 4));
    all[1]!.run = 777;
    expect(policy.knownTokens(all[1]!, promptOf(0, 4))).toBe(0);
  });
});

describe('the trie of prefixes', () => {
  it('never grows beyond its bound, and forgets ends before beginnings', () => {
    const trie = new PrefixTrie(100);
    const first = ['a', 'b', 'c', 'd'];
    trie.add(first, 1);
    for (let index = 0; index < 200; index += 1) {
      trie.add(['a', `${index}`], 2);
      expect(trie.size).toBeLessThanOrEqual(100);
    }
    expect(trie.depths(first)).toEqual(
      new Map([
        [1, 1],
        [2, 1],
      ]),
    );
    expect(trie.depths(['a', '199'])).toEqual(
      new Map([
        [1, 1],
        [2, 2],
      ]),
    );
    expect(trie.depths(['a', '0'])).toEqual(
      new Map([
        [1, 1],
        [2, 1],
      ]),
    );
  });

  it('forgets the end of a prompt, and keeps its beginning', () => {
    const trie = new PrefixTrie(4);
    trie.add(['a', 'b', 'c', 'd'], 1);
    trie.add(['x', 'y'], 2);
    expect(trie.depths(['a', 'b', 'c', 'd'])).toEqual(new Map([[1, 2]]));
  });

  it('names the last 256 instances that have used a block', () => {
    const trie = new PrefixTrie();
    for (let run = 0; run < 256; run += 1) trie.add(['a'], run);
    for (const run of [0, 256]) trie.add(['a'], run);
    const depths = trie.depths(['a']);
    expect([depths.size, depths.has(0), depths.has(1), depths.has(256)]).toEqual([256, true, false, true]);
  });

  it('keeps of a prompt longer than itself what fits', () => {
    const trie = new PrefixTrie(10);
    trie.add(
      Array.from({ length: 50 }, (_, index) => `${index}`),
      1,
    );
    expect(trie.size).toBe(10);
    expect(trie.depths(['0', '1']).get(1)).toBe(2);
  });
});

describe('the prompt of a request', () => {
  const chatPrompt = (body: JsonObject): PromptShape => chatCompletions.readRequest(body).prompt;

  it.each([
    ['Hello', 2, 1],
    [['Hello', 'x'.repeat(100)], 25, 2],
    [Int32Array.of(1, 2, 3), 3, 1],
    [[Int32Array.of(1, 2, 3), Int32Array.of(4)], 3, 2],
    ['', 0, 1],
    [undefined, 0, 1],
    [7, 0, 1],
    [[], 0, 1],
    [[null], 0, 1],
  ])('%j has about %i tokens in %i prompts', (prompt, numTokens, count) => {
    expect(completions.readRequest({ prompt }).prompt).toMatchObject({ numTokens, count });
  });

  it('of a chat is as long as its texts, and begins with its tools', () => {
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'x'.repeat(391) }] }];
    const prompt = chatPrompt({ messages });
    expect(prompt.numTokens).toBe(100);
    const withTools = chatPrompt({ messages, tools: [{ name: 'y'.repeat(300) }] });
    expect(withTools.blockHashes[0]).not.toBe(prompt.blockHashes[0]);
    const laterMessages = chatPrompt({
      messages: [{ role: 'user', content: 'z' }],
      tools: [{ name: 'y'.repeat(300) }],
    });
    expect(laterMessages.blockHashes.slice(0, 2)).toEqual(withTools.blockHashes.slice(0, 2));
    expect(chatPrompt({ messages: 5 }).blockHashes).toEqual([]);
  });

  it('of the other conversations is as long as its texts, too', () => {
    const [half, quarter] = ['x'.repeat(200), 'y'.repeat(100)];
    for (const { prompt } of [
      messages.readRequest({
        messages: [{ role: 'user', content: half }],
        system: quarter,
        tools: [quarter],
      }),
      responses.readRequest({ input: half, instructions: quarter, tools: [quarter] }),
    ])
      expect(prompt.numTokens).toBeGreaterThanOrEqual(100);
  });

  it('of a request that only counts it is nobody’s to know', () => {
    const messages = [{ role: 'user', content: 'x'.repeat(1000) }];
    for (const endpoint of [countTokens, inputTokens]) {
      const { prompt } = endpoint.readRequest({ messages, input: messages });
      expect(prompt).toEqual({ count: 1, numTokens: 0, blockHashes: [] });
    }
  });

  it('is remembered by short digests, whatever is in it', () => {
    const prompts = ['x'.repeat(100_000), Int32Array.from({ length: 1100 }, () => 2 ** 31 - 1)];
    for (const prompt of prompts) {
      const { blockHashes } = completions.readRequest({ prompt }).prompt;
      expect(blockHashes.length).toBeGreaterThan(30);
      for (const hash of blockHashes) expect(hash.length).toBeLessThan(40);
    }
    const long = { prompt: 'x'.repeat(1_000_000) };
    expect(completions.readRequest(long).prompt.blockHashes).toHaveLength(1024);
    expect(completions.readRequest({ prompt: [1, 'x'.repeat(100_000)] }).prompt.blockHashes).toEqual([]);
  });
});
