// For how long one request holds the main thread of the server, each field at its largest: others wait that long.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { writeTinyModel } from '../test/fixtures/tiny-model.ts';
import { WatchedServer } from '../test/helpers/watched-server.ts';
import { type Figure, median, type Section } from './report.ts';

const CONTEXT = 131_072;
const VOCABULARY = 131_072;
const BODY_BYTES = 8 * 1024 * 1024 - 1000;
const TRIES = 5;
const COMPLETIONS = '/v1/completions';
const CHAT = '/v1/chat/completions';

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));
const text = (length: number): string => 'word '.repeat(length / 5);
const ids = (count: number): number[] => times(count, (at) => 10 + (at % 50));
const named = (count: number, value: unknown): object =>
  Object.fromEntries(times(count, (at) => [`name${at}`, value]));
const message = (content: unknown): object => ({ role: 'user', content });
const parts = (count: number): object[] => times(count, () => ({ type: 'text', text: 'a' }));

/** 100 of them are as large as a body that is parsed at once may be; a number such as 1e21 is a float that is whole. */
const tools = (count: number, value: number): object[] =>
  times(count, (at) => {
    const x = { type: 'number', description: text(400), default: value, minimum: 0 };
    return {
      type: 'function',
      function: { name: `f${at}`, parameters: { type: 'object', properties: { x } } },
    };
  });

/** What is asked, on which path, beside a prompt and max_tokens where it has none of its own. */
const CASES: readonly (readonly [name: string, path: string, body: object])[] = [
  ['nothing large', COMPLETIONS, {}],
  ['unknown field, 8 MB', COMPLETIONS, { note: text(BODY_BYTES - 200) }],
  ['name of a field, 8 MB', COMPLETIONS, { [text(BODY_BYTES - 200)]: 1 }],
  ['model, 8 MB', COMPLETIONS, { model: text(BODY_BYTES - 200) }],
  ['prompt, 8 MB of words', COMPLETIONS, { prompt: text(BODY_BYTES - 200) }],
  ['prompt, two million ids', COMPLETIONS, { prompt: ids(2_000_000) }],
  ['prompt, 130,000 ids, echo', COMPLETIONS, { prompt: ids(130_000), echo: true }],
  ['prompt, 1,024 lists of 8 ids', COMPLETIONS, { prompt: times(1024, () => ids(8)) }],
  ['prompt, 1,024 texts', COMPLETIONS, { prompt: times(1024, (at) => `text ${at}`) }],
  ['n = 128 of 8 prompts', COMPLETIONS, { prompt: times(8, () => ids(8)), n: 128 }],
  ['stop, 64 of 1,024 characters', COMPLETIONS, { stop: times(64, (at) => `${at}${text(1020)}`) }],
  ['stop_token_ids, 1,024', COMPLETIONS, { stop_token_ids: times(1024, (at) => at) }],
  ['allowed_token_ids, 128,000', COMPLETIONS, { allowed_token_ids: times(128_000, (at) => at) }],
  [
    'allowed_token_ids, 128,000, n = 64',
    COMPLETIONS,
    { allowed_token_ids: times(128_000, (at) => at), n: 64 },
  ],
  ['logit_bias, 1,024', COMPLETIONS, { logit_bias: Object.fromEntries(times(1024, (at) => [at, 1])) }],
  ['bad_words, 1,024 of 30', COMPLETIONS, { bad_words: times(1024, () => text(30)) }],
  ['bad_words, 400,000', COMPLETIONS, { bad_words: times(400_000, (at) => `w${at}`) }],
  ['metadata, 4,096 fields', COMPLETIONS, { metadata: named(4096, 'value') }],
  ['4,096 messages', CHAT, { messages: times(4096, () => message('a')) }],
  ['7 messages of 1,024 parts', CHAT, { messages: times(7, () => message(parts(1024))) }],
  ['a message of 8 MB', CHAT, { messages: [message(text(BODY_BYTES - 200))] }],
  ['chat_template_kwargs, 256', CHAT, { messages: [message('a')], chat_template_kwargs: named(256, 'v') }],
  [
    'chat_template_kwargs, 19,000',
    CHAT,
    { messages: [message('a')], chat_template_kwargs: named(19_000, 'v') },
  ],
  ['100 tools', CHAT, { messages: [message('a')], tools: tools(100, 0.5), tool_choice: 'none' }],
  [
    '100 tools with floats that are whole',
    CHAT,
    { messages: [message('a')], tools: tools(100, 1e21), tool_choice: 'none' },
  ],
  [
    'chat_template_kwargs, 10,000 floats that are whole',
    CHAT,
    { messages: [message('a')], chat_template_kwargs: { x: times(10_000, () => 1e21) } },
  ],
  ['stream, 1,024 lists of 8 ids', COMPLETIONS, { prompt: times(1024, () => ids(8)), stream: true }],
  [
    'stream, first chunk with logprobs 5 of 4,000 echoed ids',
    COMPLETIONS,
    { prompt: ids(4000), echo: true, logprobs: 5, stream: true },
  ],
  [
    'stream, 128 times 120,000 ids',
    COMPLETIONS,
    { prompt: ids(120_000), n: 128, return_token_ids: true, stream: true },
  ],
  ['answer, 128 times 120,000 ids', COMPLETIONS, { prompt: ids(120_000), n: 128, return_token_ids: true }],
  ['answer, prompt_logprobs 20 of 4,000 ids', COMPLETIONS, { prompt: ids(4000), prompt_logprobs: 20 }],
  [
    'answer, top_logprobs 20, n = 64, 64 tokens',
    CHAT,
    { messages: [message('a')], n: 64, max_tokens: 64, ignore_eos: true, logprobs: true, top_logprobs: 20 },
  ],
];

export async function responsivenessSection(): Promise<Section> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  writeTinyModel(folder, { config: { max_position_embeddings: CONTEXT, vocab_size: VOCABULARY } });
  const server = await WatchedServer.start([
    folder,
    '--kv-cache-memory-bytes',
    '256M',
    '--log-level',
    'error',
  ]);
  try {
    const figures: Figure[] = [];
    for (const [name, path, body] of CASES) figures.push(await measure(server, name, path, body));
    return {
      title: 'Main thread held by one request',
      figures,
      notes: [
        `Best and median of ${TRIES}, in a process of its own; a tiny model with a context of ${CONTEXT} tokens.`,
      ],
    };
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true });
  }
}

async function measure(server: WatchedServer, name: string, path: string, body: object): Promise<Figure> {
  const defaults = path === COMPLETIONS ? { prompt: 'a' } : {};
  const json = JSON.stringify({ ...defaults, max_tokens: 1, ...body });
  const tries: number[] = [];
  let status = 0;
  for (let i = 0; i < TRIES; i++) {
    const asked = await server.ask(path, json);
    status = asked.status;
    tries.push(asked.held);
  }
  const best = Math.min(...tries);
  const label = `${name} (answer ${status}; median ${median(tries).toFixed(1)} ms)`;
  return { name: label, value: best, unit: 'ms', limit: null, goal: '< 20 ms' };
}
