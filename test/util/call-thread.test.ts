import { afterEach, describe, expect, it } from 'vitest';
import { CancelledError, InvalidRequestError, OverloadedError } from '../../src/errors.ts';
import { CallThread } from '../../src/util/call-thread.ts';

const MODULE = new URL('../helpers/echo-thread', import.meta.url);

interface Options {
  readonly deadlineMs?: number;
  readonly maxWaiting?: number;
  readonly sizeOf?: (order: string) => number;
}

let thread: CallThread<string, string>;
afterEach(() => thread.close());

function start(options: Options = {}): void {
  thread = new CallThread(MODULE, { name: 'test', deadlineMs: 30_000, ...options });
}

describe('CallThread', () => {
  it('answers calls in their order', async () => {
    start();
    const order: string[] = [];
    const note = (answer: string): unknown => order.push(answer);
    await Promise.all(['a', 'b', 'c'].map((call) => thread.call(call).then(note)));
    expect(order).toEqual(['a!', 'b!', 'c!']);
  });

  it('hands errors over with class, message and field', async () => {
    start();
    const refused = thread.call('refuse');
    await expect(refused).rejects.toBeInstanceOf(InvalidRequestError);
    await expect(refused).rejects.toMatchObject({ message: 'no', param: 'field' });
    await expect(thread.call('break')).rejects.toMatchObject({ status: 500 });
  });

  it('gives a call up that takes too long, and answers the next one with a new thread', async () => {
    start({ deadlineMs: 3000 });
    await thread.call('warm up');
    const [hung, next] = await Promise.allSettled([thread.call('hang'), thread.call('next')]);
    expect(hung).toMatchObject({ status: 'rejected', reason: expect.any(OverloadedError) });
    expect(next).toEqual({ status: 'fulfilled', value: 'next!' });
  });

  it('starts again where the thread has died', async () => {
    start();
    await expect(thread.call('die')).rejects.toThrow('has died');
    expect(await thread.call('a')).toBe('a!');
  });

  it('lets no more calls wait than it may', async () => {
    start({ maxWaiting: 1 });
    const first = thread.call('a');
    const second = thread.call('b');
    await expect(thread.call('c')).rejects.toBeInstanceOf(OverloadedError);
    expect(await Promise.all([first, second])).toEqual(['a!', 'b!']);
  });

  it('bounds the sizes of those that wait, and takes any size where none does', async () => {
    start({ maxWaiting: 10, sizeOf: ({ length }) => length });
    const first = thread.call('twenty characters...');
    const second = thread.call('ten chars.');
    await expect(thread.call('c')).rejects.toBeInstanceOf(OverloadedError);
    expect(await Promise.all([first, second])).toEqual(['twenty characters...!', 'ten chars.!']);
  });

  it('lets callers take turns, however many calls one has brought', async () => {
    start();
    const order: string[] = [];
    const call = (name: string, caller: string) =>
      thread.call(name, { caller }).then((answer) => order.push(answer));
    const calls = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map((name) => call(name, name[0]!));
    await Promise.all(calls);
    expect(order).toEqual(['a1!', 'a2!', 'b1!', 'c1!', 'a3!', 'b2!', 'a4!']);
  });

  it('has room for an equal part of each caller, whatever the others have brought', async () => {
    start({ maxWaiting: 4 });
    const call = (name: string, caller: string) => thread.call(name, { caller });
    const calls = ['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'b2'].map((name) => call(name, name[0]!));
    await expect(call('a6', 'a')).rejects.toBeInstanceOf(OverloadedError);
    await expect(call('b3', 'b')).rejects.toBeInstanceOf(OverloadedError);
    expect(await Promise.all(calls)).toHaveLength(7);
  });

  it('takes back what waits, and not what has begun', async () => {
    start({ maxWaiting: 1 });
    const first = thread.call('a');
    const withdrawn = thread.call('die');
    expect([thread.withdraw('a'), thread.withdraw('die'), thread.withdraw('die')]).toEqual([
      false,
      true,
      false,
    ]);
    await expect(withdrawn).rejects.toBeInstanceOf(CancelledError);
    expect(await Promise.all([first, thread.call('b')])).toEqual(['a!', 'b!']);
  });

  it('tells those that wait when it is closed', async () => {
    start();
    const calls = Promise.allSettled([thread.call('hang'), thread.call('b')]);
    await thread.close();
    for (const { status } of await calls) expect(status).toBe('rejected');
  });
});
