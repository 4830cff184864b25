// Fetches files of images from the web, as far as the server goes there for a client.

import { Agent, type Dispatcher, request } from 'undici';
import { InvalidRequestError, messageOf } from '../errors.ts';
import { shortened } from '../util/preview.ts';
import { imageFault, MAX_IMAGE_BYTES, tooLarge } from './image-fault.ts';
import { PrivateAddressError, publicAgent } from './public-addresses.ts';

const MAX_REDIRECTS = 3;
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];
/** Some hosts answer nobody without a name. */
const HEADERS = { accept: 'image/*', 'user-agent': 'svc' };

export interface WebOptions {
  /** The only hosts that are asked, as URLs have them; none are all that are on the public web. */
  readonly domains: readonly string[];
  /** Of one image, its redirects included. */
  readonly deadlineMs: number;
}

/** The hosts that may be asked, and the connections to them. */
export class ImageWeb {
  readonly #domains: ReadonlySet<string>;
  readonly #deadlineMs: number;
  readonly #publicHosts = publicAgent();
  readonly #namedHosts = new Agent({ pipelining: 0 });

  constructor({ domains, deadlineMs }: WebOptions) {
    this.#domains = new Set(domains);
    this.#deadlineMs = deadlineMs;
  }

  /**
   * @param path of the part of the request that has the URL.
   * @throws InvalidRequestError naming `path`; the reason of `signal`.
   */
  async fetch(url: string, path: string, signal: AbortSignal | undefined): Promise<Uint8Array> {
    const deadline = AbortSignal.timeout(this.#deadlineMs);
    try {
      const ended = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
      return await this.#follow(url, path, ended);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof InvalidRequestError) throw error;
      const why = deadline.aborted
        ? `it takes longer than ${this.#deadlineMs / 1000} seconds`
        : whyNot(error);
      throw imageFault(path, `${shortened(url)} cannot be fetched: ${why}`, error);
    }
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    await Promise.all([this.#publicHosts.destroy(), this.#namedHosts.destroy()]);
  }

  async #follow(url: string, path: string, signal: AbortSignal): Promise<Uint8Array> {
    let at = toWebUrl(url, undefined, path);
    for (let numRedirects = 0; numRedirects <= MAX_REDIRECTS; numRedirects++) {
      const dispatcher = this.#connectionsTo(at, path);
      const { statusCode, headers, body } = await request(at, { dispatcher, signal, headers: HEADERS });
      const target = REDIRECTS.includes(statusCode) ? headers.location : undefined;
      if (typeof target !== 'string') {
        expectImage(statusCode, Number(headers['content-length']), body, path);
        return readBody(body, path);
      }
      drop(body);
      at = toWebUrl(target, at, path);
    }
    throw imageFault(path, `${shortened(url)} redirects more than ${MAX_REDIRECTS} times`);
  }

  #connectionsTo({ hostname }: URL, path: string): Agent {
    if (this.#domains.has(hostname)) return this.#namedHosts;
    if (this.#domains.size === 0) return this.#publicHosts;
    throw imageFault(
      path,
      `images are fetched from a few hosts only (--allowed-media-domains), and ${shortened(hostname)} is none of them: send the image ` +
        'itself, as a data: URL',
    );
  }
}

type Body = Dispatcher.ResponseData['body'];

/** @param base of a redirect. */
function toWebUrl(given: string, base: URL | undefined, path: string): URL {
  const url = URL.canParse(given, base?.href) ? new URL(given, base?.href) : null;
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url;
  const what = base === undefined ? 'the URL of an image must be' : 'a redirect must lead to';
  throw imageFault(path, `${what} one of https:, http: or data:, got ${shortened(given)}`);
}

function expectImage(statusCode: number, length: number, body: Body, path: string): void {
  const fault =
    statusCode !== 200
      ? imageFault(path, `the address of the image answers with the status ${statusCode}`)
      : length > MAX_IMAGE_BYTES
        ? tooLarge(path)
        : null;
  if (fault === null) return;
  drop(body);
  throw fault;
}

/** Of what is too large, no more than shows it. */
async function readBody(body: Body, path: string): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let numBytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    numBytes += chunk.length;
    if (numBytes > MAX_IMAGE_BYTES) throw tooLarge(path);
  }
  return Buffer.concat(chunks);
}

function drop(body: Body): void {
  body.on('error', () => {}).destroy();
}

function whyNot(error: unknown): string {
  // Of a name with several addresses, each has failed.
  if (error instanceof AggregateError) return whyNot(error.errors[0]);
  return error instanceof PrivateAddressError
    ? 'it is not on the public web, and other hosts are asked only where --allowed-media-domains names them'
    : messageOf(error);
}
