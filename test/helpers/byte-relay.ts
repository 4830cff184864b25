// Stands between two ends of TCP connections, and can change, hold up and cut what the connecting side sends.

import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

export class ByteRelay {
  /** Sees what comes, with its place in the stream of its connection; what it returns goes on. */
  change: (bytes: Buffer, offset: number) => Buffer = (bytes) => bytes;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #incoming = new Set<Socket>();
  #isPaused = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(target: string): Promise<ByteRelay> {
    const server = createServer();
    const relay = new ByteRelay(server);
    server.on('connection', (socket) => relay.#join(socket, target));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return relay;
  }

  get address(): string {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the relay does not listen');
    return `127.0.0.1:${address.port}`;
  }

  /** Reads no more from the connecting side. */
  pause(): void {
    this.#isPaused = true;
    for (const socket of this.#incoming) socket.pause();
  }

  resume(): void {
    this.#isPaused = false;
    for (const socket of this.#incoming) socket.resume();
  }

  /** Ends all connections as a crash of a host would. */
  reset(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #join(incoming: Socket, target: string): void {
    const [host = '', port] = target.split(':');
    const outgoing = connect(Number(port), host);
    let offset = 0;
    this.#incoming.add(incoming);
    if (this.#isPaused) incoming.pause();
    incoming.on('data', (bytes) => {
      outgoing.write(this.change(bytes, offset));
      offset += bytes.length;
    });
    outgoing.on('data', (bytes) => incoming.write(bytes));
    const pairs = [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const;
    for (const [socket, other] of pairs) {
      this.#sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        this.#sockets.delete(socket);
        this.#incoming.delete(socket);
        other.destroySoon();
      });
    }
  }
}
