import { describe, expect, it } from 'vitest';
import { nearestName } from '../../src/config/suggest.ts';

const NAMES = ['host', 'port', 'max-num-seqs', 'max-num-batched-tokens', 'maxModelLen'];

describe('the nearest name', () => {
  it.each([
    ['prot', 'port'],
    ['por', 'port'],
    ['hots', 'host'],
    ['MAX_NUM_SEQS', 'max-num-seqs'],
    ['max-num-batch-tokens', 'max-num-batched-tokens'],
    ['max_model_len', 'maxModelLen'],
  ])('to %s is %s', (typed, meant) => {
    expect(nearestName(typed, NAMES)).toBe(meant);
  });

  it.each(['temperature', 'x', ''])('to %j is none', (typed) => {
    expect(nearestName(typed, NAMES)).toBeNull();
  });
});
