// A client that writes bytes as a test says, and may shut down its side of the connection or leave without a word.

import { connect, type Socket } from 'node:net';

export class RawClient {
  readonly socket: Socket;
  /** All that has come. */
  received = '';
  isClosed = false;

  constructor(port: number, text: string, host = '127.0.0.1') {
    this.socket = connect({ port, host, allowHalfOpen: true });
    this.socket.write(text);
    this.socket.setEncoding('utf8').on('data', (chunk) => {
      this.received += chunk;
    });
    // Who leaves does not want to hear of it.
    this.socket.on('error', () => {});
    this.socket.on('end', () => this.socket.end());
    this.socket.on('close', () => {
      this.isClosed = true;
    });
  }

  /** Sends nothing more, and goes on to listen. */
  shutDown(): void {
    this.socket.end();
  }

  /** Closes the connection. */
  leave(): void {
    this.socket.destroy();
  }

  /** Headers and body of the answer, behind whatever came before it. */
  get answer(): { readonly status: number; readonly head: string; readonly body: string } {
    const text = this.received.replace(/^(HTTP\/1\.1 100 Continue\r\n\r\n)*/, '');
    const [head = '', body = ''] = text.split(/\r\n\r\n(.*)/s);
    return { status: Number(head.split(' ')[1]), head, body };
  }
}

/** A POST with a whole body, or with a part of one that says how long it would be. */
export function rawPost(path: string, body: object | string, { version = '1.1', length = 0 } = {}): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return (
    `POST ${path} HTTP/${version}\r\nHost: a\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${length || Buffer.byteLength(text)}\r\n\r\n${text}`
  );
}
