import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { LoadClient, type TimedAnswer } from '../../../src/cli/bench/serve/timed-answer.ts';

const CHUNK = `data: ${JSON.stringify({ choices: [{ text: 'a' }] })}\n\n`;
const DONE = 'data: [DONE]\n\n';

let server: Server;
let body = '';
beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.url !== '/v1/completions') response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': 'text/event-stream' }).end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => server.close());

async function ask(end: string): Promise<TimedAnswer> {
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : '';
  const target = { apiKey: '', model: 'm', backend: 'openai', headers: {}, extraBody: {} } as const;
  body = CHUNK + CHUNK + end;
  // Written as some write it.
  const client = new LoadClient({ ...target, url: `http://127.0.0.1:${port}/v1/` });
  const answer = await client.answer({ prompt: 'Hello', outputLen: 2, at: null });
  await client.close();
  return answer;
}

it('an answer is whole where its stream says that it ends', async () => {
  expect(await ask(DONE)).toMatchObject({ error: null, outputTokens: 2 });
});

it('an answer that breaks off is none', async () => {
  expect((await ask('')).error).toBe('the stream broke off before the answer was complete');
});
