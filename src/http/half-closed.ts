// A client may shut its side of the connection down behind its request and wait for the answer. One that is gone looks the
// same until something is sent to it: then its machine resets the connection. So such a client is asked, again and again,
// by bytes that mean nothing.

import type { Server, ServerResponse } from 'node:http';

/** The first question brings the reset and the second finds it: who is gone is noticed after twice this time. */
const ASK_EVERY_MS = 100;

/** Whoever answers on `server` from now on has to ask. */
export function allowHalfClosed(server: Server): void {
  // Known to node and not documented: without it the connection ends when the client shuts its side down.
  Reflect.set(server, 'httpAllowHalfOpen', true);
  // Each of the requests that a client sends one behind the other listens.
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

/** Asks in front of the answer, where HTTP/1.1 has a word that every client skips; HTTP/1.0 has none. */
export function askForAnswer(response: ServerResponse): void {
  const isOthersTurn = response.socket === null;
  if (response.headersSent || isOthersTurn) return;
  if (response.req.httpVersion === '1.0') response.destroy();
  else response.writeContinue();
}
