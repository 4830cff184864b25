// A client may shut down its side of the connection after its request and wait for the answer. A client that is gone looks
// the same until something is sent to it: then its machine resets the connection. So such a client is probed with bytes that
// mean nothing.

import type { Server, ServerResponse } from 'node:http';

/** The first probe causes the reset and the second finds it: a client that is gone is noticed after twice this time. */
const ASK_EVERY_MS = 100;

/** From now on every response of `server` needs `whileHalfClosed`. */
export function allowHalfClosed(server: Server): void {
  // Known to node and not documented: without it the connection ends when the client shuts its side down.
  Reflect.set(server, 'httpAllowHalfOpen', true);
  // Each pipelined request of a client listens.
  server.on('connection', (socket) => socket.setMaxListeners(0));
}

/** Calls `ask` while the client of `response` has shut its side down, until the answer is over. */
export function whileHalfClosed(response: ServerResponse, ask: () => void): void {
  const { socket } = response.req;
  let asking: NodeJS.Timeout | undefined;
  const begin = (): void => {
    asking = setInterval(ask, ASK_EVERY_MS).unref();
  };
  if (socket.readableEnded) begin();
  else socket.once('end', begin);
  response.once('close', () => {
    clearInterval(asking);
    socket.off('end', begin);
  });
}

/** Closes the connection after `response` where its client has shut its side down: nothing can follow. */
export function endAfterHalfClosed(response: ServerResponse): void {
  const { socket } = response.req;
  // Node does so by itself, unless an answer says how its connection goes on.
  response.once('finish', () => {
    const isLast = Reflect.get(socket, '_httpMessage') == null;
    if (isLast && socket.readableEnded) socket.end();
  });
}

/** Probes before the answer, by an interim response that clients of HTTP/1.1 skip; HTTP/1.0 has no such responses. */
export function askForAnswer(response: ServerResponse): void {
  const isOthersTurn = response.socket === null;
  if (response.headersSent || isOthersTurn) return;
  if (response.req.httpVersion === '1.0') response.destroy();
  else response.writeContinue();
}
