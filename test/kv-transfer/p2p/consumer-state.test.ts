import { describe, expect, it } from 'vitest';
import {
  type ConsumerTransfer,
  firstMissing,
  isExpected,
  pulledTransfer,
  pushedTransfer,
  type SampleLoad,
} from '../../../src/kv-transfer/p2p/consumer-state.ts';

const ABOUT = { key: 'k#0', hash: 'h', address: '127.0.0.1:1', numTokens: 40 };
const BUFFER = {
  slots: { location: 'buffer', offsets: new Float64Array(10) },
  ticket: 7n,
  firstBlock: 0,
  isClosing: false,
} as const;

function withSamples(...samples: readonly (readonly [SampleLoad['state'], number])[]): ConsumerTransfer {
  return {
    ...pulledTransfer(ABOUT, 0),
    samples: samples.map(([state, firstBlock], transferId) => ({
      transferId,
      state,
      firstBlock,
      blocks: [],
    })),
  };
}

describe('a transfer at the consumer as it begins', () => {
  it('has a buffer where P pushes it, and none where it is to be pulled', () => {
    expect(pushedTransfer(ABOUT, BUFFER, 5)).toMatchObject({
      phase: 'arriving',
      isPushed: true,
      buffer: BUFFER,
    });
    expect(pulledTransfer(ABOUT, 5)).toMatchObject({ phase: 'pulling', isPushed: false, buffer: null });
  });

  it('belongs to no request yet', () => {
    for (const transfer of [pushedTransfer(ABOUT, BUFFER, 5), pulledTransfer(ABOUT, 5)]) {
      expect(transfer).toMatchObject({ isClaimed: false, samples: [], retries: 0, lastActivity: 5 });
    }
  });
});

describe('the blocks of a transfer', () => {
  it('are expected until they are received or given up', () => {
    const phases = (['waiting', 'pulling', 'arriving', 'received', 'over'] as const).filter((phase) =>
      isExpected({ ...pulledTransfer(ABOUT, 0), phase }),
    );
    expect(phases).toEqual(['waiting', 'pulling', 'arriving']);
  });

  it('are missing from the first one on that some sequence lacks', () => {
    expect(firstMissing(withSamples(['wanted', 4], ['wanted', 2]))).toBe(2);
    expect(firstMissing(withSamples(['wanted', 4], ['done', 0]))).toBe(4);
  });

  it('are all missing while some sequence has not said what it lacks', () => {
    expect(firstMissing(withSamples(['wanted', 4], ['idle', 0]))).toBe(0);
    expect(firstMissing(withSamples(['done', 3]))).toBe(0);
    expect(firstMissing(withSamples())).toBe(0);
  });
});
