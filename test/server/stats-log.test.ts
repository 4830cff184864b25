import { describe, expect, it } from 'vitest';
import type { EngineStats } from '../../src/engine/inference-engine.ts';
import { statsLine } from '../../src/server/stats-log.ts';

const IDLE: EngineStats = {
  running: 0,
  waiting: 0,
  loading: 0,
  heldBack: 0,
  freeBlocks: 100,
  heldBlocks: 0,
  numBlocks: 100,
  preemptions: 4,
  prefixCacheQueries: 1000,
  prefixCacheHits: 500,
  externalCacheQueries: 0,
  externalCacheHits: 0,
  cachedPromptTokens: 0,
  loadedPromptTokens: 0,
  promptTokens: 1000,
  generationTokens: 2000,
  speculation: null,
  runningAdapters: [],
  waitingAdapters: [],
  busySeconds: 1,
  kvTransfer: null,
};

describe('the line of statistics', () => {
  it('tells what was done since the one before, a second', () => {
    const now = {
      ...IDLE,
      running: 3,
      waiting: 2,
      loading: 1,
      heldBack: 4,
      freeBlocks: 45,
      preemptions: 6,
      prefixCacheQueries: 1200,
      prefixCacheHits: 650,
      promptTokens: 1250,
      generationTokens: 2123,
    };
    expect(statsLine(IDLE, now, 10)).toBe(
      'prompt throughput: 25.0 tokens/s, generation throughput: 12.3 tokens/s, running: 3, waiting: 7, ' +
        'preemptions: 2, KV cache usage: 55.0%, prefix cache hit rate: 75.0%',
    );
  });

  it('tells how much of what was guessed ahead was right, where something was', () => {
    const before = { drafts: 10, draftTokens: 50, acceptedTokens: 50, acceptedPerPosition: [] };
    const now = { drafts: 14, draftTokens: 70, acceptedTokens: 55, acceptedPerPosition: [] };
    const line = statsLine({ ...IDLE, speculation: before }, { ...IDLE, running: 1, speculation: now }, 10);
    expect(line).toMatch(/, draft acceptance rate: 25\.0%, mean acceptance length: 2\.25$/);
    const idle = { ...IDLE, speculation: now };
    expect(statsLine(idle, { ...idle, running: 1 }, 10)).not.toContain('acceptance');
  });

  it('tells how much another instance had of what it was asked for, where one was asked', () => {
    const now = { ...IDLE, running: 1, externalCacheQueries: 200, externalCacheHits: 150 };
    expect(statsLine(IDLE, now, 10)).toMatch(/, external prefix cache hit rate: 75\.0%$/);
  });

  it('tells of work that has ended since, and of work that has only begun', () => {
    expect(statsLine(IDLE, { ...IDLE, generationTokens: 2005 }, 10)).toContain('0.5 tokens/s, running: 0');
    expect(statsLine(IDLE, { ...IDLE, running: 1 }, 10)).toContain('0.0 tokens/s, running: 1');
  });

  it('is none where nothing was done and nothing is to be done', () => {
    expect(statsLine(IDLE, IDLE, 10)).toBeNull();
  });
});
