import { describe, expect, it } from 'vitest';
import { DEADLINES } from '../../../src/kv-transfer/p2p/deadlines.ts';

describe('the deadlines', () => {
  it('are looked at several times before any of them ends', () => {
    const { sweep, missedPings, unknownRetry, ...others } = DEADLINES;
    expect(Math.min(...Object.values(others))).toBeGreaterThanOrEqual(4 * sweep);
    expect(missedPings).toBeGreaterThan(0);
    expect(unknownRetry).toBeLessThan(others.unknown);
  });

  it('let D notice a dead P and stalled blocks before it gives up a load, with time to pull again', () => {
    const { answer, ping, missedPings, stall, room, load } = DEADLINES;
    expect(ping * (missedPings + 1) + answer).toBeLessThan(load);
    expect(room + 2 * stall + answer).toBeLessThan(load);
  });

  it('let P hold its blocks until D has noticed that none come and pulls them again', () => {
    expect(DEADLINES.hold).toBeGreaterThan(DEADLINES.room + 2 * DEADLINES.stall);
    expect(DEADLINES.put).toBeLessThan(DEADLINES.hold);
  });
});
