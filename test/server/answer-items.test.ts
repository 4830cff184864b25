// Thoughts, texts and calls as items of a response and as blocks of a message: what the client libraries make of the events
// is what an answer in one piece says, however the parts are cut.

import { MessageStream } from '@anthropic-ai/sdk/lib/MessageStream';
import fc from 'fast-check';
import { ResponseStream } from 'openai/lib/responses/ResponseStream';
import { describe, expect, it } from 'vitest';
import type { CompletedSample } from '../../src/engine/completed-sample.ts';
import type { OutputDelta } from '../../src/engine/inference-engine.ts';
import { jsonPieces } from '../../src/http/json-pieces.ts';
import type { AnswerPart } from '../../src/parsers/answer-parts.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import { MessagesWriter } from '../../src/server/messages/messages-writer.ts';
import type { ResponseOptions } from '../../src/server/response-options.ts';
import type { ResponseWriter } from '../../src/server/response-writer.ts';
import { type ResponseObject, responseFields } from '../../src/server/responses/response-object.ts';
import { ResponsesWriter } from '../../src/server/responses/responses-writer.ts';

const PARAMS = resolveSamplingParams({});
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
  };
}

/** The events of a stream, as JSON. */
async function events(writer: ResponseWriter, deltas: readonly AnswerPart[][]): Promise<string[]> {
  const frames = [...writer.open()];
  for (const delta of deltas) frames.push(...(await writer.delta(0, deltaOf(delta, null))));
  frames.push(...(await writer.delta(0, deltaOf([], 'stop'))), ...writer.close());
  return frames.map((frame) => /^data: ([^\n]*)\n/m.exec(frame)?.[1] ?? '');
}

function whole(writer: ResponseWriter, parts: readonly AnswerPart[], numTokens: number) {
  return JSON.parse(bodyText(writer, parts, numTokens));
}

function bodyText(writer: ResponseWriter, parts: readonly AnswerPart[], numTokens: number): string {
  const sample: CompletedSample = {
    ...deltaOf(parts, 'stop'),
    finish_reason: 'stop',
    tokenIds: Array.from({ length: numTokens }, () => 1),
    numReasoningTokens: numTokens,
  };
  return [...jsonPieces(writer.body([sample]))].join('');
}

function lines(events: readonly string[]): ReadableStream {
  return new Blob([events.map((event) => `${event}\n`).join('')]).stream();
}

function responsesWriter(onComplete: (response: ResponseObject) => void = () => {}): ResponsesWriter {
  const fields = responseFields(OPTIONS.head, { input: 'x' }, PARAMS);
  return new ResponsesWriter({ options: OPTIONS, fields, answerId: '1', idLength: null, onComplete });
}

function messagesWriter(showsThinking = true): MessagesWriter {
  return new MessagesWriter({ options: OPTIONS, idLength: null, showsThinking });
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
        const expected = whole(responsesWriter(), parts, deltas.length + 1);
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
        const expected = whole(messagesWriter(showsThinking), parts, deltas.length + 1);
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
    expect(whole(messagesWriter(), parts, 1).content).toMatchObject([
      { type: 'tool_use', name: 'add', input: {} },
    ]);
  });
});

it('the input of a tool in a message in one piece has its numbers as the model wrote them', () => {
  const input = '{"id": 12345678901234567890, "x": 1.0}';
  const parts: AnswerPart[] = [
    { kind: 'call', name: 'add' },
    { kind: 'arguments', text: input },
  ];
  expect(bodyText(messagesWriter(), parts, 1)).toContain(`"input":${input}`);
});

/** What the libraries add of their own. */
function withoutParsed(key: string, value: unknown): unknown {
  return ['parsed', 'parsed_arguments', 'parsed_output', 'output_parsed'].includes(key) ? undefined : value;
}
