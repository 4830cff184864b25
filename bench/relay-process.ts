// A process of its own that passes bytes between a client and one port, and looks at none: what bench/proxy.ts takes for the
// least that standing in between can cost. Argument: the port behind.

import { once } from 'node:events';
import { connect, createServer } from 'node:net';

const target = Number(process.argv[2]);

const server = createServer({ noDelay: true }, (client) => {
  const upstream = connect({ port: target, host: '127.0.0.1', noDelay: true });
  client.pipe(upstream).pipe(client);
  client.on('error', () => upstream.destroy());
  upstream.on('error', () => client.destroy());
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const address = server.address();
if (address === null || typeof address === 'string') throw new Error('no port was given');
process.stdout.write(`${address.port}\n`);
