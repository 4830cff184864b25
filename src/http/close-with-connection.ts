// The answers of a connection end with it, those too that wait for their turn on it.

import type { ServerResponse } from 'node:http';

/**
 * Closes `response` when its connection ends. Node does so itself for the one answer that is being written; whoever waited for the
 * end of those behind it (pipelining) would wait for ever.
 */
export function closeWithConnection(response: ServerResponse): void {
  const { socket } = response.req;
  const close = (): void => {
    const waitsForItsTurn = response.socket === null && !response.writableFinished;
    if (!waitsForItsTurn) return;
    response.destroy();
    response.emit('close');
  };
  socket.once('close', close);
  response.once('close', () => socket.off('close', close));
}
