// A process of its own that registers with a proxy as a prefill and as a decode instance and answers everything at once:
// what bench/proxy.ts holds the proxy against. Arguments: discovery address, tokens of a stream, milliseconds a token.

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Dealer } from 'zeromq';
import { encodeRegistration } from '../src/kv-transfer/discovery-message.ts';

const [discovery = '', numTokens = '', tokenMs = ''] = process.argv.slice(2);
const HEARTBEAT_MS = 1000;

const WHOLE = JSON.stringify({
  id: 'cmpl-bench',
  object: 'text_completion',
  created: 1_700_000_000,
  model: 'bench',
  choices: [{ index: 0, text: ' a dog', logprobs: null, finish_reason: 'length', stop_reason: null }],
  usage: { prompt_tokens: 4, total_tokens: 6, completion_tokens: 2 },
});

function eventOf(token: number): string {
  const choice = { index: 0, text: ` token${token}`, logprobs: null, finish_reason: null, stop_reason: null };
  const head = { id: 'cmpl-bench', object: 'text_completion', created: 1_700_000_000, model: 'bench' };
  return `data: ${JSON.stringify({ ...head, choices: [choice] })}\n\n`;
}

async function stream(response: ServerResponse, hasJournal: boolean): Promise<void> {
  response.socket?.setNoDelay(true);
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  response.flushHeaders();
  for (let token = 0; token < Number(numTokens); token += 1) {
    await sleep(Number(tokenMs));
    response.write(`${hasJournal ? `: 0 ${token}\n` : ''}${eventOf(token)}`);
  }
  response.end('data: [DONE]\n\n');
}

const server = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (text: string) => {
    body += text;
  });
  request.on('end', () => {
    if (body.includes('"stream":true')) void stream(response, request.headers['x-svc-journal'] === '1');
    else
      response
        .writeHead(200, { 'content-type': 'application/json', 'content-length': WHOLE.length })
        .end(WHOLE);
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const address = server.address();
if (address === null || typeof address === 'string') throw new Error('no port was given');

/** One process is both: a name and an address give it a second registration. */
for (const [type, host, port] of [
  ['P', 'localhost', 1],
  ['D', '127.0.0.1', 2],
] as const) {
  const zmqAddress = `127.0.0.1:${port}`;
  const dealer = new Dealer({ linger: 0, routingId: zmqAddress, sendTimeout: 0 });
  dealer.connect(`tcp://${discovery}`);
  const httpAddress = `${host}:${address.port}`;
  const about = { type, http_address: httpAddress, zmq_address: zmqAddress, epoch: 'bench', model: 'bench' };
  const beat = (): void => void dealer.send(encodeRegistration(about)).catch(() => {});
  beat();
  setInterval(beat, HEARTBEAT_MS);
}
process.stdout.write(`${address.port}\n`);
