// Thoughts, texts and calls as items of a response and as blocks of a message: what the client libraries make of the events
// is what an answer in one piece says, however the parts are cut.

import { MessageStream } from '@anthropic-ai/sdk/lib/MessageStream';
import fc from 'fast-check';
import { ResponseStream } from 'openai/lib/responses/ResponseStream';
import { describe, expect, it } from 'vitest';
import { collectSamples } from '../../src/engine/completed-sample.ts';
import type { OutputDelta, PreparedRequest } from '../../src/engine/inference-engine.ts';
import { RequestTimeoutError } from '../../src/errors.ts';
import { jsonPieces } from '../../src/http/json-pieces.ts';
import type { AnswerPart } from '../../src/parsers/answer-parts.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import { MessagesWriter } from '../../src/server/messages/messages-writer.ts';
import type { ResponseOptions } from '../../src/server/response-options.ts';
import type { ResponseWriter } from '../../src/server/response-writer.ts';
import { type ResponseObject, responseFields } from '../../src/server/responses/response-object.ts';
import { ResponsesWriter } from '../../src/server/responses/responses-writer.ts';
import { newRequest } from '../helpers/new-request.ts';

const PARAMS = resolveSamplingParams({});
const PROMPT: PreparedRequest = {
  ...newRequest({ promptTokenIds: [1, 2, 3] }),
  arrivedAt: 0,
  params: PARAMS,
  adapter: null,
  answer: null,
  transferKey: null,
  resume: null,
};
const OPTIONS: ResponseOptions = {
  head: { id: 'resp_1', created: 1700, model: 'tiny', system_fingerprint: '' },
  prompts: [],
  echoes: [],
  returnTokenIds: false,
  returnPromptLogprobs: false,
  serviceTier: null,
  areTokensIds: false,
  includeUsage: false,
  continuousUsage: false,
  showsCachedTokens: true,
};

const text = fc.string({ minLength: 1, maxLength: 6, unit: 'grapheme' });
const call = fc
  .tuple(fc.constantFrom('add', 'look_up'), fc.record({ a: text, b: fc.integer() }))
  .map(([name, given]): AnswerPart[] => [
    { kind: 'call', name },
    { kind: 'arguments', text: JSON.stringify(given) },
  ]);
const answer = fc
  .array(
    fc.oneof(
      text.map((it): AnswerPart[] => [{ kind: 'content', text: it }]),
      text.map((it): AnswerPart[] => [{ kind: 'reasoning', text: it }]),
      call,
    ),
    { maxLength: 6 },
  )
  .map((parts) => parts.flat());

/** The same answer in more pieces, some of them in the same delta. */
function pieces(parts: readonly AnswerPart[], seed: number): AnswerPart[][] {
  const deltas: AnswerPart[][] = [];
  for (const part of parts) {
    if (!('text' in part)) {
      deltas.push([part]);
      continue;
    }
    const at = seed % (part.text.length + 1);
    for (const piece of [part.text.slice(0, at), part.text.slice(at)]) {
      if (piece === '') continue;
      const cut: AnswerPart = { ...part, text: piece };
      if (seed % 2 === 0) deltas.push([cut]);
      else deltas.at(-1)?.push(cut) ?? deltas.push([cut]);
    }
  }
  return deltas;
}

function deltaOf(parts: readonly AnswerPart[] | null, finish_reason: 'stop' | 'length' | null): OutputDelta {
  const counts = { index: 0, tokenIds: [1], numReasoningTokens: 1, numCachedTokens: 2 };
  return {
    ...counts,
    text: '',
    parts,
    logprobs: null,
    promptLogprobs: null,
    finish_reason,
    stop_reason: null,
    isCallCut: false,
  };
}

/** The events of a stream, as JSON. */
async function events(writer: ResponseWriter, deltas: readonly AnswerPart[][]): Promise<string[]> {
  const frames = [...writer.open()];
  for (const delta of deltas) frames.push(...(await writer.delta(0, deltaOf(delta, null))));
  frames.push(...(await writer.delta(0, deltaOf([], 'stop'))), ...writer.close());
  return frames.map((frame) => /^data: ([^\n]*)\n/m.exec(frame)?.[1] ?? '');
}

async function whole(writer: ResponseWriter, deltas: readonly AnswerPart[][]) {
  const given = [...deltas.map((parts) => deltaOf(parts, null)), deltaOf([], 'stop')];
  return JSON.parse(await bodyText(writer, given));
}

async function bodyText(writer: ResponseWriter, deltas: readonly OutputDelta[]): Promise<string> {
  return [...jsonPieces(writer.body(await collectSamples(deltas)))].join('');
}

function lines(events: readonly string[]): ReadableStream {
  return new Blob([events.map((event) => `${event}\n`).join('')]).stream();
}

function responsesWriter(
  onComplete: (response: ResponseObject) => void = () => {},
  idLength: number | null = null,
): ResponsesWriter {
  const fields = responseFields(OPTIONS.head, { input: 'x' }, PARAMS);
  return new ResponsesWriter({ options: OPTIONS, fields, answerId: '1', idLength, onComplete });
}

function messagesWriter(showsThinking = true, idLength: number | null = null): MessagesWriter {
  return new MessagesWriter({ options: OPTIONS, idLength, showsThinking });
}

describe('the events of an answer of thoughts, texts and calls', () => {
  it('make, in the client of responses, the response in one piece', async () => {
    await fc.assert(
      fc.asyncProperty(answer, fc.nat(12), async (parts, seed) => {
        let kept: ResponseObject | null = null;
        const deltas = pieces(parts, seed);
        const made = await events(
          responsesWriter((response) => {
            kept = response;
          }),
          deltas,
        );
        expect(made.map((event) => JSON.parse(event).sequence_number)).toEqual(made.map((_, index) => index));
        const expected = await whole(
          responsesWriter(),
          deltas.map((_, index) => (index === 0 ? parts : [])),
        );
        expect(JSON.parse(made.at(-1)!).response).toEqual(expected);
        expect(kept).toEqual(expected);
        // Without the last event, which says it all, the client puts it together itself.
        const read = await ResponseStream.fromReadableStream(lines(made.slice(0, -1))).finalResponse();
        const plain = read.output.map((item) => JSON.parse(JSON.stringify(item, withoutParsed)));
        expect(plain).toEqual(expected.output);
      }),
      { numRuns: 60 },
    );
  });

  it('make, in the client of messages, the message in one piece', async () => {
    await fc.assert(
      fc.asyncProperty(answer, fc.nat(12), fc.boolean(), async (parts, seed, showsThinking) => {
        const deltas = pieces(parts, seed);
        const made = await events(messagesWriter(showsThinking), deltas);
        const expected = await whole(
          messagesWriter(showsThinking),
          deltas.map((_, index) => (index === 0 ? parts : [])),
        );
        const read = await MessageStream.fromReadableStream(lines(made)).finalMessage();
        expect(JSON.parse(JSON.stringify(read, withoutParsed))).toEqual(expected);
        expect(read.stop_reason).toBe(parts.some(({ kind }) => kind === 'call') ? 'tool_use' : 'end_turn');
        if (!showsThinking) expect(read.content.some(({ type }) => type === 'thinking')).toBe(false);
      }),
      { numRuns: 60 },
    );
  });

  it('tell of a call whose arguments are cut off as an incomplete one', async () => {
    const parts: AnswerPart[] = [
      { kind: 'call', name: 'add' },
      { kind: 'arguments', text: '{"a": ' },
    ];
    const writer = responsesWriter();
    writer.open();
    await writer.delta(0, deltaOf(parts, null));
    const [, done = ''] = await writer.delta(0, deltaOf([], 'length'));
    expect(done).toContain('"status":"incomplete","call_id"');
    expect(writer.close()[0]).toMatch(/^event: response\.incomplete\n/);
    const goesInCircles = { ...deltaOf(parts, 'stop'), finish_reason: 'repetition' as const };
    expect(JSON.parse(await bodyText(responsesWriter(), [goesInCircles]))).toMatchObject({
      status: 'incomplete',
      incomplete_details: null,
      output: [{ type: 'function_call', status: 'incomplete' }],
    });
    expect((await whole(messagesWriter(), [parts])).content).toMatchObject([
      { type: 'tool_use', name: 'add', input: {} },
    ]);
  });
});

it('the events of a response without a word tell of an empty message, and of no text in it', async () => {
  const made = await events(responsesWriter(), []);
  expect(made.map((event) => JSON.parse(event).type.replace('response.', ''))).toEqual([
    'created',
    'in_progress',
    'output_item.added',
    'content_part.added',
    'output_text.done',
    'content_part.done',
    'output_item.done',
    'completed',
  ]);
});

it('the events of a response say in which item, and in which part of it, their text is', async () => {
  const parts: AnswerPart[] = [
    { kind: 'reasoning', text: 'so' },
    { kind: 'content', text: 'I' },
    { kind: 'call', name: 'add' },
    { kind: 'arguments', text: '{}' },
  ];
  const made = (await events(responsesWriter(), [parts])).map((event) => JSON.parse(event));
  const deltas = made.filter(({ type }) => type.endsWith('.delta'));
  const place = {
    type: expect.any(String),
    sequence_number: expect.any(Number),
    item_id: expect.any(String),
  };
  expect(deltas).toEqual([
    { ...place, output_index: 0, content_index: 0, delta: 'so' },
    { ...place, output_index: 1, content_index: 0, delta: 'I', logprobs: [] },
    { ...place, output_index: 2, delta: '{}' },
  ]);
  expect(made.find(({ type }) => type === 'response.reasoning_text.done')).toEqual({
    ...place,
    output_index: 0,
    content_index: 0,
    text: 'so',
  });
});

it('the events of a response that fails have the next numbers', () => {
  const writer = responsesWriter();
  const frames = [...writer.open(), ...writer.fail(new RequestTimeoutError('too late'))];
  const told = frames.map((frame) => JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? ''));
  expect(told.map(({ sequence_number }) => sequence_number)).toEqual([0, 1, 2, 3]);
  expect(told.slice(2)).toMatchObject([
    { type: 'error', message: 'too late' },
    { type: 'response.failed', response: { status: 'failed', error: { message: 'too late' } } },
  ]);
});

describe('an answer in one piece', () => {
  const CALL: readonly AnswerPart[] = [
    { kind: 'call', name: 'add' },
    { kind: 'arguments', text: '{"a":1}' },
  ];
  const PARTS: AnswerPart[] = [
    { kind: 'reasoning', text: 'so' },
    { kind: 'content', text: 'I' },
    ...CALL,
    ...CALL,
  ];

  it('has an item of thoughts, one of text and one of each call', async () => {
    const { output } = await whole(responsesWriter(), [PARTS]);
    const status = 'completed';
    expect(output).toMatchObject([
      { type: 'reasoning', status, content: [{ type: 'reasoning_text', text: 'so' }] },
      { type: 'message', status, content: [{ type: 'output_text', text: 'I' }] },
      { type: 'function_call', status, name: 'add', arguments: '{"a":1}' },
      { type: 'function_call', status, name: 'add', arguments: '{"a":1}' },
    ]);
    expect(
      new Set(output.map(({ id, call_id }: { id: string; call_id?: string }) => call_id ?? id)).size,
    ).toBe(4);
  });

  it('has a block of thoughts, one of text and one of each call', async () => {
    const { content } = await whole(messagesWriter(), [PARTS]);
    expect(content).toMatchObject([
      { type: 'thinking', thinking: 'so' },
      { type: 'text', text: 'I' },
      { type: 'tool_use', name: 'add', input: { a: 1 } },
      { type: 'tool_use', name: 'add', input: { a: 1 } },
    ]);
    expect(content[2].id).not.toBe(content[3].id);
  });

  it('has as incomplete only what it was cut off in', async () => {
    const statuses = async (parts: readonly AnswerPart[]): Promise<unknown[]> => {
      const { output } = JSON.parse(await bodyText(responsesWriter(), [deltaOf(parts, 'length')]));
      return output.map(({ status }: { status: string }) => status);
    };
    expect(await statuses(PARTS.slice(0, 1))).toEqual(['incomplete']);
    expect(await statuses(PARTS.slice(0, 4))).toEqual(['completed', 'completed', 'incomplete']);
  });

  it.each([true, false])('counts what came from the cache where that may be told: %s', async (isTold) => {
    const options = { ...OPTIONS, prompts: [PROMPT], showsCachedTokens: isTold };
    const cached = isTold ? 2 : 0;
    const response = new ResponsesWriter({
      options,
      fields: responseFields(OPTIONS.head, { input: 'x' }, PARAMS),
      answerId: '1',
      idLength: null,
      onComplete: () => {},
    });
    expect((await whole(response, [PARTS])).usage).toMatchObject({
      input_tokens: 3,
      input_tokens_details: { cached_tokens: cached },
    });
    const message = new MessagesWriter({ options, idLength: null, showsThinking: true });
    expect((await whole(message, [PARTS])).usage).toMatchObject({
      input_tokens: 3 - cached,
      cache_read_input_tokens: cached,
    });
  });

  it('names its calls by ids of the length that the model knows', async () => {
    const { output } = await whole(
      responsesWriter(() => {}, 9),
      [PARTS],
    );
    const { content } = await whole(messagesWriter(true, 9), [PARTS]);
    for (const id of [output[2].call_id, output[3].call_id, content[2].id, content[3].id])
      expect(id).toMatch(/^[0-9a-f]{9}$/);
  });
});

it('the input of a tool in a message in one piece has its numbers as the model wrote them', async () => {
  const input = '{"id": 12345678901234567890, "x": 1.0}';
  const parts: AnswerPart[] = [
    { kind: 'call', name: 'add' },
    { kind: 'arguments', text: input },
  ];
  expect(await bodyText(messagesWriter(), [deltaOf(parts, 'stop')])).toContain(`"input":${input}`);
});

/** A delta of one token, named by its id. */
function tokenOf(id: number, parts: readonly AnswerPart[], isThought = false): OutputDelta {
  const token = { text: `${id}`, bytes: Buffer.from(`${id}`) };
  const position = { tokenId: id, logprob: -1, rank: 1, token, top: [] };
  const numReasoningTokens = isThought ? 1 : 0;
  return { ...deltaOf(parts, null), tokenIds: [id], numReasoningTokens, logprobs: [position] };
}

describe('log-probabilities of a response', () => {
  const DELTAS: readonly OutputDelta[] = [
    tokenOf(1, [{ kind: 'reasoning', text: 'so' }], true),
    tokenOf(2, [], true),
    tokenOf(3, [{ kind: 'content', text: 'I ' }]),
    tokenOf(4, [{ kind: 'content', text: 'add' }]),
    tokenOf(5, [{ kind: 'call', name: 'add' }]),
    tokenOf(6, [{ kind: 'arguments', text: '{}' }]),
    tokenOf(7, []),
    tokenOf(8, [{ kind: 'content', text: 'done' }]),
    { ...tokenOf(9, []), finish_reason: 'stop' },
  ];

  it('are those of what is said, in a stream as in one piece', async () => {
    const told = JSON.parse(await bodyText(responsesWriter(), DELTAS));
    const tokens = told.output.map(({ content = [] }) =>
      content.flatMap(({ logprobs = [] }) => logprobs.map(({ token }: { token: string }) => token)),
    );
    expect(tokens).toEqual([[], ['3', '4'], [], ['7', '8', '9']]);
    expect(told.usage).toMatchObject({ output_tokens: 9, output_tokens_details: { reasoning_tokens: 2 } });
    const streaming = responsesWriter();
    streaming.open();
    for (const delta of DELTAS) await streaming.delta(0, delta);
    const [last = ''] = streaming.close();
    expect(JSON.parse(/^data: (.*)$/m.exec(last)?.[1] ?? '').response).toEqual(told);
  });

  it('are those of what is said where that comes together with thoughts', async () => {
    const [thought, said] = [DELTAS[0]!, DELTAS[2]!];
    const both = {
      ...thought,
      parts: [...thought.parts!, ...said.parts!],
      tokenIds: [1, 3],
      logprobs: [...thought.logprobs!, ...said.logprobs!],
      finish_reason: 'stop' as const,
    };
    const { output } = JSON.parse(await bodyText(responsesWriter(), [both]));
    expect(output).toMatchObject([
      { type: 'reasoning' },
      { type: 'message', content: [{ text: 'I ', logprobs: [{ token: '3' }] }] },
    ]);
  });

  it('are no reason to say something behind a call', async () => {
    const { output } = JSON.parse(await bodyText(responsesWriter(), [...DELTAS.slice(0, 6), DELTAS.at(-1)!]));
    expect(output.map(({ type }: { type: string }) => type)).toEqual([
      'reasoning',
      'message',
      'function_call',
    ]);
  });

  it('may be more than a call takes arguments', async () => {
    const logprobs = new Array(200_000).fill(DELTAS[3]!.logprobs![0]);
    const delta = {
      ...tokenOf(1, [{ kind: 'content', text: 'a' }]),
      logprobs,
      finish_reason: 'stop' as const,
    };
    const told = JSON.parse(await bodyText(responsesWriter(), [delta]));
    expect(told.output[0].content[0].logprobs).toHaveLength(200_000);
  });
});

/** What the libraries add of their own. */
function withoutParsed(key: string, value: unknown): unknown {
  return ['parsed', 'parsed_arguments', 'parsed_output', 'output_parsed'].includes(key) ? undefined : value;
}
