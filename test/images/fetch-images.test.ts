// Images from a real server on this machine, which only its name in the list of hosts lets in.

import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { InvalidRequestError } from '../../src/errors.ts';
import { fetchImages } from '../../src/images/fetch-images.ts';
import { ImageSource } from '../../src/util/image-source.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { until } from '../helpers/until.ts';

const FILE = Buffer.from('no image, but bytes');
const PATH = 'messages[1].content[0]';
const LIMIT = 20 * 1024 * 1024;

/** Paths that were asked for, and how much of an endless answer was written. */
let asked: string[] = [];
let numWritten = 0;
let isCut = false;

const ANSWERS: Readonly<Record<string, RequestListener>> = {
  '/image': (_, response) => response.end(FILE),
  '/moved': (_, response) => redirect(response, '/moved-again'),
  '/moved-again': (_, response) => redirect(response, '/moved-at-last'),
  '/moved-at-last': (_, response) => redirect(response, '/image'),
  '/once-too-often': (_, response) => redirect(response, '/moved'),
  '/301': (_, response) => redirect(response, '/image', 301),
  '/303': (_, response) => redirect(response, '/image', 303),
  '/307': (_, response) => redirect(response, '/image', 307),
  '/308': (_, response) => redirect(response, '/image', 308),
  '/loop': (_, response) => redirect(response, '/loop'),
  '/elsewhere': ({ socket }, response) => redirect(response, `http://localhost:${socket.localPort}/image`),
  '/to-a-file': (_, response) => redirect(response, 'file:///etc/passwd'),
  '/largest': (_, response) => response.end(Buffer.alloc(LIMIT)),
  '/missing': (_, response) => response.writeHead(404).end('not here'),
  '/announced': (_, response) => response.writeHead(200, { 'content-length': LIMIT + 1 }).flushHeaders(),
  '/endless': (_, response) => writeForEver(response),
  '/silent': () => {},
  '/slow': (_, response) => void response.write('a'),
};

const server = createServer((request, response) => {
  asked.push(request.url ?? '');
  ANSWERS[request.url ?? '']?.(request, response);
});

function redirect(response: ServerResponse, location: string, status = 302): void {
  response.writeHead(status, { location }).end();
}

function writeForEver(response: ServerResponse): void {
  const chunk = Buffer.alloc(64 * 1024);
  const write = (): void => {
    numWritten += chunk.length;
    response.write(chunk, (error) => error ?? write());
  };
  response.once('close', () => {
    isCut = true;
  });
  write();
}

beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  asked = [];
});

const temporaryFolder = temporaryFolders();
const urlOf = (path: string, host = '127.0.0.1'): string =>
  `http://${host}:${(server.address() as AddressInfo).port}${path}`;

async function fetchOne(url: string, options: Partial<Parameters<typeof fetchImages>[1]> = {}) {
  const [file] = await fetchImages([new ImageSource(url, PATH)], { domains: ['127.0.0.1'], ...options });
  return file;
}

/** The error must be one of the request, of the part that has the image. */
async function refusal(...args: Parameters<typeof fetchOne>): Promise<string> {
  const error = await fetchOne(...args).catch((thrown: unknown) => thrown);
  if (!(error instanceof InvalidRequestError)) throw error;
  expect(error.param).toBe('messages');
  expect(error.message).toMatch(/^messages\[1\]\.content\[0\]: /);
  return error.message;
}

describe('an image on the web', () => {
  it('is fetched, also behind three redirects', async () => {
    expect(await fetchOne(urlOf('/image'))).toEqual(FILE);
    expect(await fetchOne(urlOf('/moved'))).toEqual(FILE);
  });

  it.each(['/301', '/303', '/307', '/308'])('is fetched from where it has moved: %s', async (path) => {
    expect(await fetchOne(urlOf(path))).toEqual(FILE);
  });

  it('may be as large as is taken', async () => {
    expect(await fetchOne(urlOf('/largest'))).toHaveLength(LIMIT);
  });

  it.each([
    ['/once-too-often', /redirects more than 3 times/],
    ['/loop', /redirects more than 3 times/],
    ['/to-a-file', /a redirect must lead to one of https:, http: or data:, got file:/],
    ['/missing', /answers with the status 404/],
    ['/announced', /has more than 20971520 bytes/],
  ])('is refused from %s', async (path, message) => {
    expect(await refusal(urlOf(path))).toMatch(message);
  });

  it('is read no further than is taken', async () => {
    numWritten = 0;
    expect(await refusal(urlOf('/endless'))).toMatch(/has more than 20971520 bytes/);
    await until(() => isCut);
    expect(numWritten).toBeLessThan(2 * LIMIT);
  });

  it.each(['/silent', '/slow'])('is waited for until the deadline (%s)', async (path) => {
    expect(await refusal(urlOf(path), { deadlineMs: 200 })).toMatch(/it takes longer than 0\.2 seconds/);
  });

  it('is not waited for by a client that has left', async () => {
    const client = new AbortController();
    const gone = new Error('the client has left');
    const fetching = fetchOne(urlOf('/silent'), { signal: client.signal });
    await until(() => asked.length === 1);
    client.abort(gone);
    await expect(fetching).rejects.toBe(gone);
  });

  it('is refused where its server is not there', async () => {
    for (const host of ['127.0.0.1', 'localhost']) {
      const options = { domains: [host] };
      expect(await refusal(`http://${host}:1/a`, options)).toMatch(/cannot be fetched: .*ECONNREFUSED/);
    }
  });

  it.each(['ftp://127.0.0.1/a', 'file:///etc/passwd', '/etc/passwd', '', 'a cat'])(
    'is not looked for at %j',
    async (url) => {
      expect(await refusal(url)).toMatch(/must be one of https:, http: or data:/);
    },
  );
});

describe('a host that is not named', () => {
  it('is not asked, neither at once nor behind a redirect', async () => {
    expect(await refusal(urlOf('/image', 'localhost'))).toMatch(/--allowed-media-domains.*localhost/);
    expect(asked).toEqual([]);
    expect(await refusal(urlOf('/elsewhere'))).toMatch(/--allowed-media-domains.*localhost/);
    expect(asked).toEqual(['/elsewhere']);
  });

  it.each(['127.0.0.1', 'localhost', '2130706433', '0x7f.1', '[::1]', '[::ffff:127.0.0.1]'])(
    'is not connected to where it is of the own machine: %s',
    async (host) => {
      const url = urlOf('/image', host);
      expect(await refusal(url, { domains: [] })).toMatch(/it is not on the public web/);
      expect(asked).toEqual([]);
    },
  );
});

describe('an image in the request itself', () => {
  const encoded = FILE.toString('base64');

  it.each(['data:image/png;base64,', 'DATA:image/svg+xml;name=cat;base64,'])('is read: %s', async (head) => {
    expect(await fetchOne(head + encoded)).toEqual(FILE);
  });

  it.each([
    ['data:,', /must begin like data:image\/png;base64,/],
    [`data:text/plain;base64,${encoded}`, /must begin like/],
    ['data:image/svg+xml,<svg/>', /must begin like/],
    [`data:image/png${';a=b'.repeat(100)};base64,${encoded}`, /must begin like/],
    ['data:image/png;base64,', /must be base64/],
    ['data:image/png;base64,=', /must be base64/],
    ['data:image/png;base64,!', /must be base64/],
    ['data:image/png;base64,AAAA!', /must be base64/],
    [`data:image/png;base64,${encoded.slice(0, 8)} ${encoded.slice(8)}`, /must be base64/],
    [`data:image/png;base64,${encoded}é`, /must be base64/],
    [`data:image/png;base64,${'A'.repeat(4 * Math.ceil(LIMIT / 3) + 4)}`, /has more than 20971520 bytes/],
  ])('is refused where it is none, or too large: %#', async (url, message) => {
    expect(await refusal(url)).toMatch(message);
  });
});

describe('a file of the machine', () => {
  it('is read for a program only', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder);
    const file = join(folder, 'a cat.png');
    writeFileSync(file, FILE);
    const { href } = pathToFileURL(file);
    expect(await fetchOne(href, { readsFiles: true })).toEqual(FILE);
    expect(await refusal(href)).toMatch(/must be one of https:/);
  });

  it('is refused where it is too large', async () => {
    const folder = temporaryFolder();
    mkdirSync(folder);
    const file = join(folder, 'cat.png');
    writeFileSync(file, FILE);
    truncateSync(file, LIMIT + 1);
    expect(await refusal(pathToFileURL(file).href, { readsFiles: true })).toMatch(/has more than 20971520/);
  });

  it('is refused where there is none, or it is none', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'inner'), { recursive: true });
    const { href } = pathToFileURL(join(folder, 'inner'));
    expect(await refusal(href, { readsFiles: true })).toMatch(/is no file/);
    expect(await refusal('file:///dev/null', { readsFiles: true })).toMatch(/is no file/);
    expect(await refusal(`${href}-not`, { readsFiles: true })).toMatch(/cannot be read: ENOENT/);
  });
});

it('images come in the order of their parts, whoever is there first', async () => {
  const names = Array.from({ length: 9 }, (_, index) => `image ${index}`);
  const sources = names.map((name, index) => {
    const url = `data:image/png;base64,${Buffer.from(name).toString('base64')}`;
    return new ImageSource(index % 3 === 0 ? urlOf('/image') : url, PATH);
  });
  const files = await fetchImages(sources, { domains: ['127.0.0.1'] });
  const expected = names.map((name, index) => (index % 3 === 0 ? String(FILE) : name));
  expect(files.map(String)).toEqual(expected);
});

it('images of one request are asked for a few at a time', async () => {
  const sources = Array.from({ length: 9 }, () => new ImageSource(urlOf('/silent'), PATH));
  const fetching = fetchImages(sources, { domains: ['127.0.0.1'], deadlineMs: 500 });
  await expect(fetching).rejects.toThrow(/takes longer/);
  expect(asked.length).toBeLessThanOrEqual(4);
});

it('images of one request have so many bytes together', async () => {
  const url = `data:image/png;base64,${'A'.repeat(4 * Math.ceil(LIMIT / 3) - 4)}`;
  const sources = [urlOf('/image'), url, url].map((one, index) => new ImageSource(one, `part ${index}`));
  const files = await fetchImages(sources.slice(0, 2), { domains: ['127.0.0.1'] });
  expect(files).toHaveLength(2);
  await expect(fetchImages(sources, { domains: ['127.0.0.1'] })).rejects.toThrow(
    'part 2: with this image the images of the request have more than 33554432 bytes: send fewer, or smaller ones',
  );
});
