// An answer that comes before the end of its request, on a connection that ends with it. Closed with bytes of the client unread,
// the connection would be reset, and the answer lost to a client that writes its whole body before it reads.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';

/** A client that needs more for the rest of its body loses its connection. */
const LINGER_MS = 30_000;
const MAX_DROPPED_BYTES = 256 * 1024 * 1024;

/** Whether an answer to `request` now would close the connection while the client still writes. */
export function wouldReset(request: IncomingMessage, response: ServerResponse): boolean {
  const hasBody = 'content-length' in request.headers || 'transfer-encoding' in request.headers;
  return hasBody && !request.complete && !request.destroyed && !response.shouldKeepAlive;
}

/** `answer` at once; its end once the rest of `request` has been read and dropped, or is too much. */
export function lingering(answer: string, request: IncomingMessage): Readable {
  return Readable.from(
    (async function* () {
      yield answer;
      await rest(request);
    })(),
  );
}

function rest(request: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, LINGER_MS).unref();
    let numBytes = 0;
    request.on('data', (bytes: Buffer) => {
      numBytes += bytes.length;
      if (numBytes > MAX_DROPPED_BYTES) resolve();
    });
    // The second without the first where the client has left.
    for (const event of ['end', 'close']) request.once(event, resolve);
    request.once('close', () => clearTimeout(timer));
  });
}
