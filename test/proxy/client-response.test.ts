import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createHttpApp } from '../../src/http/app.ts';
import { listen, portOf } from '../../src/http/listen.ts';
import { ClientResponse } from '../../src/proxy/client-response.ts';

it('a client that has left before its silence is to be broken is written nothing', async () => {
  const app = createHttpApp();
  const answered = new Promise<ClientResponse>((resolve) => {
    app.get('/', async (_request, reply) => {
      await once(reply.raw, 'close');
      const response = new ClientResponse(reply, 'id', 1000);
      response.breakSilence(5);
      resolve(response);
    });
  });
  await listen(app, { host: '127.0.0.1', port: 0 });
  const socket = connect(portOf(app), '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await once(app.server, 'request');
  socket.destroy();
  const response = await answered;
  await sleep(50);
  expect(response.hasHead).toBe(false);
  await app.close();
});
