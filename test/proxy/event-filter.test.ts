import { describe, expect, it, vi } from 'vitest';
import { chatCompletions } from '../../src/proxy/endpoints/chat-completions.ts';
import { completions } from '../../src/proxy/endpoints/completions.ts';
import type { EndpointAdapter } from '../../src/proxy/endpoints/endpoint.ts';
import { messages } from '../../src/proxy/endpoints/messages.ts';
import { responses } from '../../src/proxy/endpoints/responses.ts';
import { EventFilter } from '../../src/proxy/event-filter.ts';
import { StreamProgress } from '../../src/proxy/stream-progress.ts';
import { uniform } from '../../src/sampling/random-stream.ts';

const DONE = 'data: [DONE]\n\n';

function event(choice: number, ids: readonly number[], text: string): string {
  return `: ${choice} ${ids.join()}\ndata: {"created":1700,"choices":[{"index":${choice},"text":"${text}"}]}\n\n`;
}

function withoutJournal(stream: string): string {
  return stream.replaceAll(/^: \d+ [\d,]*\n(?=data)/gm, '');
}

const STREAM = [
  event(0, [], ''),
  event(0, [11], 'a'),
  ': waiting\n\n',
  event(1, [21, 22], 'bä'),
  event(0, [12], '\\n\\n'),
  event(1, [23], ''),
  event(0, [13], 'c'),
  'data: {"created":1700,"choices":[],"usage":{"total_tokens":9}}\n\n',
  DONE,
];

/** Feeds `text` in random pieces. */
function feed(filter: EventFilter, text: string, seed: number): string {
  const bytes = Buffer.from(text);
  let out = '';
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + Math.floor(uniform(seed, 0, at) * 40);
    for (const part of filter.take(bytes.subarray(at, end))) out += part;
    at = end;
  }
  return out;
}

describe.each([completions, chatCompletions])('the filter of a stream of $path', (endpoint) => {
  const filterOf = (progress: StreamProgress): EventFilter => new EventFilter(endpoint, progress);

  it('passes whole events without the journal, however the bytes come', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const progress = new StreamProgress();
      expect(feed(filterOf(progress), STREAM.join(''), seed)).toBe(withoutJournal(STREAM.join('')));
      expect(progress).toMatchObject({ isDone: true, isBroken: false, created: 1700, numEvents: 7 });
      expect(progress.tokenIds(2)).toEqual([
        [11, 12, 13],
        [21, 22, 23],
      ]);
    }
  });

  it('never passes half an event', () => {
    const filter = filterOf(new StreamProgress());
    const text = event(0, [1], 'a');
    for (const byte of Buffer.from(text.slice(0, -1))) expect(filter.take(Buffer.from([byte]))).toEqual([]);
    expect(Buffer.concat(filter.take(Buffer.from('\n'))).toString()).toBe(withoutJournal(text));
  });

  it('drops what the client has from another instance, wherever that one ended', () => {
    const events = STREAM.filter((text) => !text.startsWith(': waiting'));
    for (let cut = 0; cut <= events.length; cut += 1) {
      const progress = new StreamProgress();
      const first = feed(filterOf(progress), `${events.slice(0, cut).join('')}: 0 99\nda`, cut);
      const second = feed(filterOf(progress), events.join(''), cut + 100);
      const expected = withoutJournal(events.join(''));
      // The last event is said by each.
      expect(first + second).toBe(cut === events.length ? expected + DONE : expected);
    }
  });

  it('refuses an instance that would have written something else', () => {
    const progress = new StreamProgress();
    feed(filterOf(progress), event(0, [1], 'a') + event(0, [2], 'b'), 0);
    const filter = filterOf(progress);
    expect(feed(filter, event(0, [1], 'a') + event(0, [3], 'x') + event(0, [4], 'y'), 1)).toBe('');
    expect(filter.failure?.message).toContain('did not repeat');
  });

  it('refuses an instance that puts fewer tokens into its events', () => {
    const progress = new StreamProgress();
    feed(filterOf(progress), event(0, [1], 'a') + event(0, [2, 3, 4], 'bcd'), 0);
    const filter = filterOf(progress);
    const words = [1, 2, 3, 4, 5].map((id) => event(0, [id], 'x'));
    expect(feed(filter, words.join('') + DONE, 1)).toBe('');
    expect(filter.failure?.message).toContain('cuts the text otherwise');
    expect(progress.tokenIds(1)).toEqual([[1, 2, 3, 4]]);
  });

  it('copies nothing of events that come whole', () => {
    const concat = vi.spyOn(Buffer, 'concat');
    const filter = filterOf(new StreamProgress());
    for (const id of [1, 2, 3]) expect(filter.take(Buffer.from(event(0, [id], 'a')))).toHaveLength(1);
    expect(concat).not.toHaveBeenCalled();
    concat.mockRestore();
  });

  it('copies each byte of a long event once', () => {
    const concat = vi.spyOn(Buffer, 'concat');
    const filter = filterOf(new StreamProgress());
    const bytes = Buffer.from(event(0, [1], 'y'.repeat(2 ** 20)));
    const parts: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += 4096) parts.push(...filter.take(bytes.subarray(at, at + 4096)));
    const numCopied = concat.mock.results.reduce((sum, { value }) => sum + value.length, 0);
    concat.mockRestore();
    expect(parts.join('')).toBe(withoutJournal(bytes.toString()));
    expect(numCopied).toBe(bytes.length);
  });

  it('gives up an instance whose event has no end', () => {
    const filter = filterOf(new StreamProgress());
    const mebibyte = Buffer.alloc(2 ** 20, 'x');
    for (let count = 0; count < 64; count += 1) filter.take(mebibyte);
    expect(filter.failure).toBeNull();
    filter.take(mebibyte);
    expect(filter.failure?.message).toBe('an event has no end');
  });

  it('keeps from the client that an instance has failed, and passes what is the fault of the request', () => {
    for (const [code, isPassed] of [
      [500, false],
      [503, false],
      [400, true],
    ] as const) {
      const filter = filterOf(new StreamProgress());
      const error = `data: {"error":{"message":"m","code":${code}}}\n\n`;
      expect(feed(filter, event(0, [1], 'a') + error + DONE, code)).toBe(
        withoutJournal(event(0, [1], 'a')) + (isPassed ? error + DONE : ''),
      );
      expect(filter.failure === null).toBe(isPassed);
    }
  });

  it.each([
    [responses, 'event: error\ndata: {"type":"error","code":"overloaded"}\n\n', false],
    [responses, 'event: error\ndata: {"type":"error","code":"timeout"}\n\n', true],
    [messages, 'event: error\ndata: {"type":"error","error":{"type":"api_error"}}\n\n', false],
    [messages, 'event: error\ndata: {"type":"error","error":{"type":"timeout_error"}}\n\n', true],
  ])('takes errors as the protocol of $path writes them', (endpoint, error, isPassed) => {
    const progress = new StreamProgress();
    const filter = new EventFilter(endpoint, progress);
    expect(feed(filter, error, 1)).toBe(isPassed ? error : '');
    expect([filter.failure === null, progress.isDone]).toEqual([isPassed, isPassed]);
  });

  it('keeps the tokens of a stream as long as another instance can be given them all', () => {
    const progress = new StreamProgress();
    const filter = filterOf(progress);
    const ids = Array.from({ length: 1000 }, (_, index) => index);
    const feedEvents = (count: number): void => {
      for (let round = 0; round < count; round += 1) {
        const choice = round % 2;
        const passed = Buffer.concat(filter.take(Buffer.from(event(choice, ids, 'a'))));
        expect(passed.toString()).toBe(withoutJournal(event(choice, ids, 'a')));
      }
    };
    feedEvents(1000);
    expect(progress.isBroken).toBe(false);
    expect(progress.tokenIds(2).flat()).toHaveLength(1_000_000);
    feedEvents(3);
    expect(progress).toMatchObject({ isBroken: true, numEvents: 1003 });
    expect(progress.tokenIds(2)).toEqual([[], []]);
  });

  it('knows a stream without a journal, which cannot be continued', () => {
    const progress = new StreamProgress();
    const plain = withoutJournal(STREAM.join(''));
    expect(feed(filterOf(progress), plain, 3)).toBe(plain);
    expect(progress.isBroken).toBe(true);
  });

  it.each([
    ': 0x\ndata: {}\n\n',
    ': -1 4\ndata: {}\n\n',
    ': 0 1,a\ndata: {}\n\n',
    ':0 1\ndata: {}\n\n',
    '\n\n',
  ])('passes what only looks like a journal (%j) as it is', (text) => {
    expect(feed(filterOf(new StreamProgress()), text, 1)).toBe(text);
  });
});

it('the tokens of a message are those of its one choice, whatever else its request names', () => {
  const progress = new StreamProgress();
  new EventFilter(messages, progress).take(Buffer.from(': 0 7\nevent: content_block_delta\ndata: {}\n\n'));
  const { numChoices } = messages.readRequest({ messages: [], n: 3 });
  expect(messages.resumeFields(progress, numChoices)).toMatchObject({ svc_resume: { choices: [[7]] } });
});

describe('the filter of a stream of an endpoint with named events and an end of its own', () => {
  const endpoint: EndpointAdapter = {
    ...completions,
    path: '/v1/responses',
    isLastEvent: (event) => event.includes('event: response.completed'),
    createdAt: () => 1700,
  };
  const events = [
    ': 0 11\nevent: response.output_text.delta\ndata: {"delta":"a"}\n\n',
    ': 0 12\nevent: response.output_text.delta\ndata: {"delta":"b"}\n\n',
    'event: response.completed\ndata: {"usage":{}}\n\n',
  ];
  const expected = events.join('').replaceAll(/^: .*\n/gm, '');

  it('passes whole events, knows the end, and drops what another instance has sent', () => {
    for (let cut = 0; cut < events.length; cut += 1) {
      const progress = new StreamProgress();
      const first = feed(new EventFilter(endpoint, progress), events.slice(0, cut).join(''), cut);
      expect(progress.isDone).toBe(false);
      const second = feed(new EventFilter(endpoint, progress), events.join(''), cut + 50);
      expect(first + second).toBe(expected);
      expect(progress).toMatchObject({ isDone: true, created: 1700 });
      expect(progress.tokenIds(1)).toEqual([[11, 12]]);
    }
  });
});
