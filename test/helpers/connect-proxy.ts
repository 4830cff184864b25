// A web proxy on loopback that opens tunnels (CONNECT), as those of companies do.

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type Socket } from 'node:net';

export class ConnectProxy {
  /** `host:port` of each tunnel. */
  readonly tunnels: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server = createServer((_, response) => response.writeHead(405).end());
    this.#server.on('connect', (request, socket: Socket) => this.#open(request.url ?? '', socket));
  }

  static async start(): Promise<ConnectProxy> {
    const proxy = new ConnectProxy();
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy does not listen');
    return `http://127.0.0.1:${address.port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #open(target: string, socket: Socket): void {
    this.tunnels.push(target);
    const { hostname, port } = new URL(`http://${target}`);
    const server = connect(Number(port), hostname, () =>
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n'),
    );
    for (const [from, to] of [[socket, server] as const, [server, socket] as const]) {
      this.#sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  }
}
