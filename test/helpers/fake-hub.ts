// A model hub on loopback, of either kind, that can misbehave: cuts connections, stalls, ignores ranges, sends wrong bytes, asks for
// a token or for patience.

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

export interface FakeHubBehaviour {
  /** Bytes after which each of the first `numCuts` file answers breaks off. */
  cutAfter?: number;
  numCuts?: number;
  /** Always send whole files. */
  ignoresRange?: boolean;
  /** Send wrong bytes in the first `numCorrupt` file answers. */
  numCorrupt?: number;
  /** Answer everything without this token with 401. */
  token?: string;
  /** Answer the first `numFailures` requests with this status, and what to do about it. */
  failWith?: number;
  numFailures?: number;
  retryAfter?: string;
  /** Bytes after which each of the first `numStalls` file answers brings nothing more, and does not end. */
  stallAfter?: number;
  numStalls?: number;
  /** Make every page of the listing one of so many entries, with another page behind it. */
  endlessEntries?: number;
  /** Send so many bytes more than the listing says. */
  numSurplus?: number;
}

export class FakeHub {
  /** `GET /path bytes=..` of every request. */
  readonly requests: string[] = [];
  /** Of all requests. */
  readonly cookies = new Set<string>();
  behaviour: FakeHubBehaviour = {};
  readonly #files: ReadonlyMap<string, Buffer>;
  readonly #server: Server;

  private constructor(files: ReadonlyMap<string, Buffer>) {
    this.#files = files;
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  /** Serves one model, `org/tiny`, with these files. */
  static async start(files: Readonly<Record<string, string | Buffer>>): Promise<FakeHub> {
    const hub = new FakeHub(
      new Map(Object.entries(files).map(([name, content]) => [name, Buffer.from(content)])),
    );
    hub.#server.listen(0, '127.0.0.1');
    await once(hub.#server, 'listening');
    return hub;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the fake hub does not listen');
    return `http://127.0.0.1:${address.port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, search } = new URL(request.url ?? '/', this.url);
    this.requests.push(`${pathname}${search} ${request.headers.range ?? ''}`.trim());
    const { token, failWith, numFailures = 0 } = this.behaviour;
    this.cookies.add(request.headers.cookie ?? '');
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) status(response, 401);
    else if (failWith !== undefined && numFailures > 0) {
      this.behaviour.numFailures = numFailures - 1;
      if (this.behaviour.retryAfter) response.setHeader('retry-after', this.behaviour.retryAfter);
      status(response, failWith);
    } else if (/^\/api\/models\/org\/tiny\/revision\/(main|refs%2Fpr%2F1)$/.test(pathname))
      json(response, { sha: COMMIT });
    else if (pathname === `/api/models/org/tiny/tree/${COMMIT}`) this.#tree(search, response);
    else if (pathname === '/api/v1/models/org/tiny/repo/files') json(response, this.#alternativeListing());
    else this.#resolve(pathname, request, response);
  }

  #resolve(pathname: string, request: IncomingMessage, response: ServerResponse): void {
    const name = /^\/(?:models\/)?org\/tiny\/resolve\/[^/]+\/(.+)$/.exec(pathname)?.[1];
    const content = name === undefined ? undefined : this.#files.get(decodeURIComponent(name));
    if (content === undefined) status(response, 404);
    else this.#sendFile(content, request, response);
  }

  /** Two entries a page: a client that forgets the second page misses files. */
  #tree(search: string, response: ServerResponse): void {
    const page = Number(new URLSearchParams(search).get('page') ?? 0);
    const linkTo = (next: number): void => {
      const url = `${this.url}/api/models/org/tiny/tree/${COMMIT}?recursive=true&page=${next}`;
      response.setHeader('link', `<${url}>; rel="next"`);
    };
    const folder = { type: 'directory', path: 'onnx', oid: '0'.repeat(40), size: 0 };
    const { endlessEntries } = this.behaviour;
    if (endlessEntries !== undefined) {
      linkTo(page + 1);
      json(response, new Array<object>(endlessEntries).fill(folder));
      return;
    }
    const entries = [...this.#files].map(([path, content]) => ({
      type: 'file',
      path,
      size: content.length,
      oid: gitHash(content),
      ...(path.endsWith('.safetensors') && { lfs: { oid: sha256(content), size: content.length } }),
    }));
    if (entries.length > 2 * (page + 1)) linkTo(page + 1);
    json(response, [folder, ...entries.slice(2 * page, 2 * page + 2)]);
  }

  #alternativeListing(): object {
    const files = [...this.#files].map(([Path, content]) => ({
      Path,
      Size: content.length,
      Sha256: sha256(content),
      Type: 'blob',
    }));
    return { Code: 200, Data: { Files: [{ Path: 'onnx', Size: 0, Sha256: '', Type: 'tree' }, ...files] } };
  }

  #sendFile(content: Buffer, request: IncomingMessage, response: ServerResponse): void {
    const { ignoresRange, numCorrupt = 0, numSurplus = 0 } = this.behaviour;
    const start = ignoresRange ? 0 : Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    let body = content.subarray(start);
    if (numCorrupt > 0) {
      this.behaviour.numCorrupt = numCorrupt - 1;
      body = Buffer.alloc(body.length, 0x21);
    }
    if (numSurplus > 0) body = Buffer.concat([body, Buffer.alloc(numSurplus)]);
    response.writeHead(start > 0 ? 206 : 200, {
      'content-length': body.length,
      ...(start > 0 && { 'content-range': `bytes ${start}-${content.length - 1}/${content.length}` }),
    });
    this.#sendBody(body, response);
  }

  #sendBody(body: Buffer, response: ServerResponse): void {
    const { cutAfter = 0, numCuts = 0, stallAfter = 0, numStalls = 0 } = this.behaviour;
    if (numStalls > 0 && body.length > stallAfter) {
      this.behaviour.numStalls = numStalls - 1;
      response.write(body.subarray(0, stallAfter));
    } else if (numCuts > 0 && body.length > cutAfter) {
      this.behaviour.numCuts = numCuts - 1;
      response.write(body.subarray(0, cutAfter), () => setTimeout(() => response.destroy(), 20));
    } else response.end(body);
  }
}

export const COMMIT = 'c0ffee'.padEnd(40, '0');

function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

function gitHash(content: Buffer): string {
  return createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');
}

function status(response: ServerResponse, code: number): void {
  response.writeHead(code).end();
}

function json(response: ServerResponse, value: object): void {
  response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
}
