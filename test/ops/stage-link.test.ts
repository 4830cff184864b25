// Hidden states on their way from the backend of one stage to that of the next.

import { describe, expect, it } from 'vitest';
import type { Ops, Tensor } from '../../src/ops/ops.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';
import { needsNative } from '../helpers/needs.ts';

/** Two rows that differ from step to step. */
function numbersOf(step: number): Float32Array {
  return Float32Array.from({ length: 2 * 5 }, (_, index) => step * 100 + index / 3);
}

const tensorOf = (ops: Ops, step: number): Tensor => ops.tensor(numbersOf(step), 2, 5, 'f32');

describe.each(availableBackends)('a link between two stages on %s', (backend) => {
  it('carries what is sent in order, views and all, while the sender uses its memory again', () => {
    const [first, second] = [openBackend(backend), openBackend(backend)];
    const link = second.makeStageLink(4);
    for (let step = 0; step < 4; step += 1) first.scope(() => first.sendHidden(link, tensorOf(first, step)));
    for (let step = 0; step < 4; step += 1) {
      second.scope(() => {
        expect(second.read(second.receiveHidden(link, 2, 5))).toEqual(numbersOf(step));
      });
    }
    first.scope(() => first.sendHidden(link, first.split(tensorOf(first, 9), [2, 3])[1]!));
    const columns = numbersOf(9).filter((_, index) => index % 5 >= 2);
    second.scope(() => expect(second.read(second.receiveHidden(link, 2, 3))).toEqual(columns));
    for (const ops of [first, second]) ops.close();
  });

  it('takes no more than it has room for, and gives nothing of another shape', () => {
    const [first, second] = [openBackend(backend), openBackend(backend)];
    const link = second.makeStageLink(1);
    const send = () => first.scope(() => first.sendHidden(link, tensorOf(first, 1)));
    send();
    expect(() => {
      send();
      first.mark().read();
    }).toThrow(/more steps|one more/);
    expect(() => second.scope(() => second.read(second.receiveHidden(link, 3, 5)))).toThrow(
      /another step|3 x 5/,
    );
    for (const ops of [first, second]) ops.close();
  });

  it('belongs to the backend that made it, and to its kind', () => {
    const [first, second] = [openBackend(backend), openBackend(backend)];
    expect(() => first.sendHidden({ capacity: 1 }, tensorOf(first, 1))).toThrow(/link of/);
    if (backend === 'cpu') {
      expect(() => second.receiveHidden(first.makeStageLink(1), 2, 5)).toThrow(/of this backend/);
    }
    for (const ops of [first, second]) ops.close();
  });
});

describe('a native stage', () => {
  it('that waits ends with an error where the one before it ends', needsNative, () => {
    const [first, second] = [openBackend('cpu'), openBackend('cpu')];
    const link = second.makeStageLink(2);
    const failing = second.makeStageLink(1);
    const scope = second.openScope();
    second.receiveHidden(link, 2, 5);
    const received = second.mark();
    // An op that fails in the stage before: what would be sent after it never comes.
    first.scope(() => {
      const x = tensorOf(first, 1);
      for (const one of [failing, failing, link]) first.sendHidden(one, x);
    });
    expect(() => received.read()).toThrow('the pipeline stage before it has failed or ended');
    scope.close();
    for (const ops of [first, second]) ops.close();
  });

  it('that waits can be closed', needsNative, () => {
    const second = openBackend('cpu');
    second.scope(() => second.receiveHidden(second.makeStageLink(1), 2, 5));
    const startedAt = performance.now();
    second.close();
    expect(performance.now() - startedAt).toBeLessThan(5000);
  });
});
