import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Leave, SampleWindow } from '../../src/engine/sample-window.ts';

describe('SampleWindow', () => {
  it('starts samples in their order, never more at once than it has places, and all in the end', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 30 }),
        fc.array(fc.nat(29)),
        (numPlaces, numSamples, order) => {
          const window = new SampleWindow(numPlaces);
          const started: number[] = [];
          let numInside = 0;
          const leaves = Array.from({ length: numSamples }, (_, sample): Leave => {
            const leave = window.enter(() => {
              started.push(sample);
              numInside += 1;
            });
            return () => {
              if (started.includes(sample)) numInside -= 1;
              leave();
            };
          });
          const gone = new Set<number>();
          const end = (sample: number): void => {
            if (!started.includes(sample) || gone.has(sample)) return;
            gone.add(sample);
            leaves[sample]!();
            expect(numInside).toBeLessThanOrEqual(numPlaces);
          };
          for (const sample of order) end(sample);
          while (gone.size < numSamples) for (const sample of [...started]) end(sample);
          expect(started).toEqual(Array.from({ length: numSamples }, (_, sample) => sample));
          expect(numInside).toBe(0);
        },
      ),
    );
  });

  it('forgets one that leaves while it waits, and takes a second leave for nothing', () => {
    const window = new SampleWindow(1);
    const started: string[] = [];
    const [first, second, third] = ['first', 'second', 'third'].map((name) =>
      window.enter(() => started.push(name)),
    );
    second!();
    second!();
    expect(window.numWaiting).toBe(1);
    first!();
    first!();
    window.enter(() => started.push('fourth'));
    expect(started).toEqual(['first', 'third']);
    third!();
    expect(started).toEqual(['first', 'third', 'fourth']);
  });

  it('has room for any number of samples that end as they start, as all do on a dead engine', () => {
    const window = new SampleWindow(1);
    const first = window.enter(() => {});
    let numStarted = 0;
    const leaves: Leave[] = [];
    for (let sample = 0; sample < 50_000; sample += 1) {
      leaves.push(
        window.enter(() => {
          numStarted += 1;
          leaves[sample]!();
        }),
      );
    }
    first();
    expect([numStarted, window.numWaiting]).toEqual([50_000, 0]);
    let isPlaced = false;
    window.enter(() => {
      isPlaced = true;
    });
    expect(isPlaced).toBe(true);
  });
});
