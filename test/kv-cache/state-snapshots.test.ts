// Which states are kept beyond their sequences: a law over random steps, and who gives way.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type StateSnapshot, StateSnapshots } from '../../src/kv-cache/state-snapshots.ts';

describe('snapshots of states', () => {
  it('are found by the steps after the one that writes them', () => {
    const snapshots = new StateSnapshots(2);
    snapshots.beginStep();
    expect(snapshots.write('a')).toMatchObject({ index: 0 });
    expect(snapshots.has('a')).toBe(false);
    expect(snapshots.write('a')).toBeNull();
    snapshots.beginStep();
    expect(snapshots.has('a')).toBe(true);
    expect(snapshots.write('a')).toBeNull();
  });

  it('give way where they were used longest ago, but not while somebody is to go on from them', () => {
    const snapshots = new StateSnapshots(2);
    snapshots.beginStep();
    for (const hash of ['a', 'b']) snapshots.write(hash);
    snapshots.beginStep();
    const held = snapshots.hold('a');
    expect(snapshots.write('c')).toMatchObject({ index: 1 });
    snapshots.beginStep();
    expect([snapshots.has('a'), snapshots.has('b'), snapshots.has('c')]).toEqual([true, false, true]);
    snapshots.read(held);
    // In the step that reads it, too.
    expect(snapshots.write('d')).toMatchObject({ index: 1 });
    expect(snapshots.write('e')).toBeNull();
    snapshots.beginStep();
    expect(snapshots.write('e')).toMatchObject({ index: 0 });
  });

  it('give way in the order of their last use', () => {
    const snapshots = new StateSnapshots(2);
    snapshots.beginStep();
    for (const hash of ['a', 'b']) snapshots.write(hash);
    snapshots.beginStep();
    snapshots.release(snapshots.hold('a'));
    snapshots.write('c');
    expect(['a', 'b'].map((hash) => snapshots.has(hash))).toEqual([true, false]);
  });

  it('are all free again once they are forgotten and nobody holds any', () => {
    const snapshots = new StateSnapshots(3);
    snapshots.beginStep();
    for (const hash of ['a', 'b']) snapshots.write(hash);
    snapshots.beginStep();
    const held = snapshots.hold('a');
    snapshots.write('c');
    snapshots.reset();
    expect(['a', 'b', 'c'].map((hash) => snapshots.has(hash))).toEqual([false, false, false]);
    snapshots.beginStep();
    expect(['a', 'b', 'c'].map((hash) => snapshots.has(hash))).toEqual([false, false, false]);
    expect(['d', 'e', 'f'].map((hash) => snapshots.write(hash) === null)).toEqual([false, false, true]);
    snapshots.release(held);
    expect(snapshots.write('f')).not.toBeNull();
  });

  it('hold what was written last for their prefix, and no step reads one that it writes', () => {
    const action = fc.oneof(
      fc.constant({ kind: 'beginStep' as const }),
      fc.record({ kind: fc.constant('hold' as const), prefix: fc.nat(5) }),
      fc.record({ kind: fc.constant('write' as const), prefix: fc.nat(5) }),
      fc.record({ kind: fc.constant('read' as const), index: fc.nat(9) }),
      fc.record({ kind: fc.constant('release' as const), index: fc.nat(9) }),
      fc.constant({ kind: 'reset' as const }),
    );
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4 }), fc.array(action, { maxLength: 60 }), (count, actions) => {
        const snapshots = new StateSnapshots(count);
        const contents: (string | null)[] = new Array(count).fill(null);
        const held: { snapshot: StateSnapshot; prefix: string }[] = [];
        let [read, written] = [new Set<number>(), new Map<number, string>()];
        for (const one of actions) {
          if (one.kind === 'beginStep') {
            for (const [index, prefix] of written) contents[index] = prefix;
            [read, written] = [new Set(), new Map()];
            snapshots.beginStep();
          } else if (one.kind === 'hold' || one.kind === 'write') {
            const prefix = `${one.prefix}`;
            if (one.kind === 'hold' && snapshots.has(prefix))
              held.push({ snapshot: snapshots.hold(prefix), prefix });
            const taken = one.kind === 'write' ? snapshots.write(prefix) : null;
            if (taken === null) continue;
            expect(read.has(taken.index)).toBe(false);
            expect(held.some(({ snapshot }) => snapshot.index === taken.index)).toBe(false);
            expect(written.has(taken.index)).toBe(false);
            written.set(taken.index, prefix);
          } else if (one.kind === 'reset') snapshots.reset();
          else if (held.length > 0) {
            const [{ snapshot, prefix }] = held.splice(one.index % held.length, 1) as [(typeof held)[0]];
            if (one.kind === 'release') snapshots.release(snapshot);
            else {
              expect(contents[snapshot.index]).toBe(prefix);
              expect(written.has(snapshot.index)).toBe(false);
              snapshots.read(snapshot);
              read.add(snapshot.index);
            }
          }
        }
      }),
      { numRuns: 2000, seed: 5 },
    );
  });
});
