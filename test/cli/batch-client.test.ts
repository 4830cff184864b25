import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BatchClient } from '../../src/cli/run-batch/batch-client.ts';

let server: Server;
let client: BatchClient;
let respond: (path: string, response: ServerResponse) => void;

beforeEach(async () => {
  server = createServer((request, response) => respond(request.url ?? '', response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : '';
  client = new BatchClient({ url: `http://127.0.0.1:${port}/v1`, apiKey: '' }, 2);
});
afterEach(async () => {
  await client.close();
  server.close();
});

async function statusOf(path: string): Promise<number | undefined> {
  const line = { number: 1, digest: '', customId: path, request: { path, body: '{}' }, fault: null };
  return (await client.answer(line)).result.response?.status_code;
}

function full(response: ServerResponse): void {
  response.writeHead(429, { 'retry-after': '0.002' }).end('{}');
}

it('a request comes again until there is room, as long as another one is under way', async () => {
  let numRefused = 0;
  let answerFirst = (): void => {};
  respond = (path, response) => {
    if (path === '/first') {
      answerFirst = () => response.end('{}');
      return;
    }
    numRefused += 1;
    if (numRefused < 200) full(response);
    else response.end('{}', answerFirst);
  };
  expect(await Promise.all([statusOf('/first'), statusOf('/second')])).toEqual([200, 200]);
});

it('a request is given up where none is answered', async () => {
  respond = (_, response) => full(response);
  expect(await statusOf('/never')).toBe(429);
});
