// A process of its own that does nothing but write a chunk to each of many streams in turn, by node's own server: what bench/
// serve.ts takes for the least that a token can cost. Arguments: streams, which all begin when the last is there, and chunks each.

import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';

/** What a token is in the event stream of a completion. */
const CHUNK = `data: ${'x'.repeat(242)}\n\n`;
/** Milliseconds between two chunks of a stream. */
const PACE_MS = 3;

const [numStreams = 0, numChunks = 0] = process.argv.slice(2).map(Number);
let streams: ServerResponse[] = [];

const server = createServer({ noDelay: true }, (_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
  streams.push(response);
  if (streams.length < numStreams) return;
  writeAll(streams, 0);
  streams = [];
});

function writeAll(all: readonly ServerResponse[], numWritten: number): void {
  for (const response of all) {
    if (numWritten === numChunks) response.end();
    else response.write(CHUNK);
  }
  if (numWritten < numChunks) setTimeout(() => writeAll(all, numWritten + 1), PACE_MS);
}

server.listen(0, '127.0.0.1');
await once(server, 'listening');
const address = server.address();
if (address === null || typeof address === 'string') throw new Error('no port was given');
process.stdout.write(`${address.port}\n`);
