import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { CliProcess, runCli } from '../helpers/cli-process.ts';

let folder: string;
let server: CliProcess;
let url: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-talk-'));
  // Short answers: the second turn must still fit into the context.
  writeTinyModel(folder, { seed: 3, generationConfig: { max_new_tokens: 8 } });
  const flags = ['--served-model-name', 'tiny', '--api-key', 'secret', '--host', '127.0.0.1', '--port', '0'];
  server = new CliProcess(['serve', folder, ...flags]);
  [, url = ''] = await server.says(/address +(http:\S+)/);
});
afterAll(async () => {
  server.child.kill('SIGTERM');
  await server.exitCode;
  rmSync(folder, { recursive: true });
});

const client = () => ['--url', url, '--api-key', 'secret'];

describe('svc complete', () => {
  it('answers one text and ends', async () => {
    const { code, stdout, stderr } = await runCli([
      'complete',
      ...client(),
      '--max-tokens',
      '4',
      '-q',
      'Once',
    ]);
    expect(code).toBe(0);
    expect(stdout.length).toBeGreaterThan(1);
    expect(stderr).toBe('');
  });

  it('refuses a limit that is no number', async () => {
    const { code, stderr } = await runCli(['complete', '--max-tokens', 'few']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/argument 'few' is invalid. expected a whole number of at least 1/);
  });
});

/** Runs `svc chat` with `lines` in a pipe. */
async function pipe(args: readonly string[], lines: readonly string[]) {
  const cli = new CliProcess(['chat', ...args]);
  cli.child.stdin?.end(lines.map((line) => `${line}\n`).join(''));
  const code = await cli.exitCode;
  return { code, stdout: cli.stdout, stderr: cli.stderr };
}

/** A server of somebody else, which keeps what it is sent. */
async function foreignServer() {
  const bodies: unknown[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    if (request.url === '/v1/models') response.end('{"data": [{"id": "m"}]}');
    else if (request.url !== '/v1/chat/completions') response.end('<html>Hello</html>');
    else {
      bodies.push(JSON.parse(body));
      response.end('data: {"choices": [{"delta": {"content": "An answer"}}]}\n\ndata: [DONE]\n\n');
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const address = server.address();
  return { bodies, origin: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}` };
}

const messages = (body: unknown) => z.object({ messages: z.array(z.unknown()) }).parse(body).messages;

describe('svc chat in a pipe', () => {
  it('answers each line, says nothing else and ends with the input', async () => {
    const args = [...client(), '--system-prompt', 'Be brief'];
    const { code, stdout, stderr } = await pipe(args, ['Hello', '', 'And you?']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringMatching(/>|Using|error/) });
    expect(stdout.match(/\n/g)?.length).toBeGreaterThanOrEqual(2);
  });

  it('sends the whole conversation with each message', async () => {
    const { bodies, origin } = await foreignServer();
    const { code, stdout } = await pipe(['--url', `${origin}/v1`], ['One', '"""', 'Two', 'lines"""']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'An answer\nAn answer\n' });
    expect(bodies.map(messages)).toEqual([
      [{ role: 'user', content: 'One' }],
      [
        { role: 'user', content: 'One' },
        { role: 'assistant', content: 'An answer' },
        { role: 'user', content: 'Two\nlines' },
      ],
    ]);
  });

  it('takes commands', async () => {
    const { bodies, origin } = await foreignServer();
    const file = join(folder, 'saved.json');
    const lines = ['/set temperature 0.5', '/system Be brief', 'One', `/save ${file}`, '/clear', 'Two'];
    const more = [
      '/set temperature default',
      '/system default',
      'Three',
      `/load ${file}`,
      'Four',
      '/exit',
      'Five',
    ];
    const { code } = await pipe(['--url', `${origin}/v1`], [...lines, ...more]);
    expect(code).toBe(0);
    const system = { role: 'system', content: 'Be brief' };
    const user = (content: string) => ({ role: 'user', content });
    const answer = { role: 'assistant', content: 'An answer' };
    expect(bodies.map(messages)).toEqual([
      [system, user('One')],
      [system, user('Two')],
      [user('Two'), answer, user('Three')],
      [system, user('One'), answer, user('Four')],
    ]);
    expect(bodies.map((body) => z.object({ temperature: z.number().optional() }).parse(body))).toEqual([
      { temperature: 0.5 },
      { temperature: 0.5 },
      {},
      { temperature: 0.5 },
    ]);
  });

  it('sends images with the next message, and keeps them in the conversation', async () => {
    const { bodies, origin } = await foreignServer();
    const [picture, saved] = ['picture.png', 'seen.json'].map((name) => join(folder, name)) as [
      string,
      string,
    ];
    const bytes = await tinyPicture(1);
    writeFileSync(picture, bytes);
    const lines = [
      `/image ${picture}`,
      '/image https://example.com/cat',
      'Alike?',
      `/save ${saved}`,
      '/clear',
    ];
    const more = [`/load ${saved}`, 'Really?'];
    const { code, stderr } = await pipe(['--url', `${origin}/v1`], [...lines, ...more]);
    expect(code).toBe(0);
    expect(stderr).toContain(`(${picture} goes with the next message)`);
    const urls = [
      `data:image/png;base64,${Buffer.from(bytes).toString('base64')}`,
      'https://example.com/cat',
    ];
    const seen = [
      ...urls.map((url) => ({ type: 'image_url', image_url: { url } })),
      { type: 'text', text: 'Alike?' },
    ];
    expect(bodies.map(messages)).toEqual([
      [{ role: 'user', content: seen }],
      [
        { role: 'user', content: seen },
        { role: 'assistant', content: 'An answer' },
        { role: 'user', content: 'Really?' },
      ],
    ]);
  });

  it('refuses wrong commands in one line each and goes on', async () => {
    const refusals = [
      [
        '/sett x',
        /^there is no command \/sett; did you mean \/set\? \(a space before the slash sends it as a message\)$/,
      ],
      [
        '/set temprature 0',
        /^there is no parameter temprature; did you mean temperature\? \(there are temperature, .*\)$/,
      ],
      ['/set temperature -1', /^temperature must be at least 0, got -1$/],
      ['/image', /^an image is missing: \/image <file or URL>$/],
      ['/image /no/such/file', /^\/image: file:\/\/\/no\/such\/file cannot be read: ENOENT: no such file/],
      [
        '/image package.json',
        /^package\.json is none of PNG, JPEG, WebP and GIF \(of which the first picture is taken\)$/,
      ],
      ['/save', /^a file name is missing: \/save <file>, \/load <file>$/],
      ['/load /no/such/file', /^\/no\/such\/file cannot be read: ENOENT: no such file/],
      ['/load /proc', /^\/proc cannot be read: EISDIR: /],
      ['/save /no/such/file', /^\/no\/such\/file cannot be written: ENOENT: no such file/],
      ['/save package.json', /^package\.json is no saved conversation: give another name$/],
    ] as const;
    const { origin } = await foreignServer();
    const lines = refusals.map(([line]) => line);
    const { code, stdout, stderr } = await pipe(['--url', `${origin}/v1`], [...lines, 'Hello']);
    expect({ code, stdout }).toEqual({ code: 1, stdout: 'An answer\n' });
    const errors = stderr.split('\n').filter((line) => line.startsWith('error: '));
    expect(errors).toEqual(
      refusals.map(([, words]) => expect.stringMatching(new RegExp(words.source.replace('^', '^error: ')))),
    );
  });

  it('forgets the oldest messages when the context is full, and says so', async () => {
    const lines = Array.from({ length: 20 }, (_, i) => `This is message number ${i} of many`);
    const { code, stderr } = await pipe(client(), lines);
    expect({ code, errors: stderr.match(/^error.*/gm) }).toEqual({ code: 0, errors: null });
    const told = stderr.match(/^\(the context is full: the model no longer sees .*\)$/gm);
    expect(told?.length).toBeGreaterThan(0);
    expect(told?.length).toBeLessThan(lines.length / 2);
  });

  it('says when a message is too long by itself, and answers the next', async () => {
    const { code, stdout, stderr } = await pipe(client(), ['Hello', 'long '.repeat(500), 'Hello']);
    expect(code).toBe(1);
    expect(stderr.match(/^error: HTTP 400: .*context.*$/gm)).toHaveLength(1);
    expect(stdout.match(/\n/g)?.length).toBeGreaterThanOrEqual(2);
  });
});

describe('svc chat', () => {
  it('runs a model that is named by itself', async () => {
    const { code, stdout, stderr } = await runCli(['chat', folder, '-q', 'Hello']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining('error') });
    expect(stdout.length).toBeGreaterThan(1);
  });

  it('shows an image to a model that sees', async () => {
    const seeing = join(folder, 'seeing');
    writeTinyVisionModel(seeing, { generationConfig: { max_new_tokens: 8 } });
    const picture = join(folder, 'seen.png');
    writeFileSync(picture, await tinyPicture(1));
    const { code, stdout, stderr } = await pipe([seeing], [`/image ${picture}`, 'Hello']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining('error') });
    expect(stdout.length).toBeGreaterThan(1);
  });

  it('runs a model for whose whole context the memory has no room', async () => {
    const long = join(folder, 'long');
    writeTinyModel(long, { config: { max_position_embeddings: 100_000 } });
    const lowMemory = 'import%20os%20from%22node:os%22;os.freemem=()=>5e7';
    const { code, stderr } = await runCli(['chat', long, '-q', 'Hello'], {
      NODE_OPTIONS: `--import=data:text/javascript,${lowMemory}`,
    });
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('error')]);
  });

  it('runs the model that svc brings along where no server is', async ({ skip }) => {
    const isTaken = await fetch('http://localhost:8000').then(Boolean, () => false);
    skip(isTaken, 'somebody listens on port 8000');
    const { code, stdout, stderr } = await runCli(['chat', '-q', 'Hello']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^Nothing answers at .*\n/) });
    expect(stdout).toMatch(/\w+/);
  });

  it('refuses a model to run here and a server to ask at the same time', async () => {
    expect(await runCli(['chat', folder, '--url', url])).toEqual({
      code: 2,
      stdout: '',
      stderr: `error: ${folder} would run here and --url asks for a server: give one of them\n`,
    });
  });

  it('waits for a server that is still loading', async () => {
    let numAsked = 0;
    const server = createServer((request, response) => {
      if (request.url === '/v1/models' && numAsked++ < 2) {
        response.writeHead(503).end('{"error": {"message": "The model is still being loaded"}}');
      } else if (request.url === '/v1/models') response.end('{"data": [{"id": "m"}]}');
      else response.end('data: {"choices": [{"delta": {"content": "Hi"}}]}\n\ndata: [DONE]\n\n');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : '';
    expect(await runCli(['chat', '--url', `http://127.0.0.1:${port}/v1`, '-q', 'Hello'])).toEqual({
      code: 0,
      stdout: 'Hi\n',
      stderr: 'The server is still loading its model: waiting for it.\n',
    });
  });
});

describe('svc chat tells in one line', () => {
  const run = (...args: readonly string[]) => runCli(['chat', ...args, '-q', 'Hello']);

  it('that there is no server', async () => {
    const { code, stderr } = await run('--url', 'http://127.0.0.1:1/v1');
    expect(code).toBe(1);
    expect(stderr).toBe(
      'error: nothing answers at http://127.0.0.1:1/v1/models: start a server with svc serve, ' +
        'or give the address of one with --url\n',
    );
  });

  /** Answers on all addresses, with a certificate for localhost. @returns its port */
  const startSecureServer = async () => {
    const pem = (name: string) => readFileSync(join('test/fixtures/tls', name));
    const server = createSecureServer({ cert: pem('server.pem'), key: pem('server.key') }, (_, response) =>
      response.writeHead(404).end(),
    ).listen(0);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const address = server.address();
    return typeof address === 'object' ? address?.port : '';
  };

  it('that the certificate of the server is not trusted, and how it is', async () => {
    const origin = `https://127.0.0.1:${await startSecureServer()}`;
    const args = ['chat', '--url', `${origin}/v1`, '-q', 'Hello'];
    const { code, stderr } = await runCli(args);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      new RegExp(
        `^error: ${origin} answers, but no authority .* certificate: .* NODE_EXTRA_CA_CERTS to the file .*\\n$`,
      ),
    );
    const trusting = await runCli(args, { NODE_EXTRA_CA_CERTS: 'test/fixtures/tls/ca.pem' });
    expect(trusting.stderr).not.toContain('certificate');
  });

  it('that the certificate of the server is that of another one', async () => {
    const origin = `https://127.0.0.2:${await startSecureServer()}`;
    const args = ['chat', '--url', `${origin}/v1`, '-q', 'Hello'];
    const { code, stderr } = await runCli(args, { NODE_EXTRA_CA_CERTS: 'test/fixtures/tls/ca.pem' });
    expect(code).toBe(1);
    expect(stderr).toMatch(
      new RegExp(`^error: ${origin} answers, but its certificate is refused: .*127\\.0\\.0\\.2.*\n$`),
    );
  });

  it('that there is no such host', async () => {
    const { code, stderr } = await run('--url', 'http://no-such-host.invalid/v1');
    expect(code).toBe(1);
    expect(stderr).toBe('error: there is no host named no-such-host.invalid: check --url\n');
  });

  it('that the key is wrong', async () => {
    const { code, stderr } = await run('--url', url, '--api-key', 'guess');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: HTTP 401: .+: give the key with --api-key or OPENAI_API_KEY\n$/);
  });

  it('that no header can carry the key, without showing it', async () => {
    const key = 'sk-SECRET\nx';
    const { code, stderr } = await runCli(['chat', '--url', url, '-q', 'Hello'], { OPENAI_API_KEY: key });
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^error: --api-key or OPENAI_API_KEY has a character that a header cannot carry.*\n$/,
    );
    expect(stderr).not.toContain('SECRET');
  });

  it('that the model is another', async () => {
    const { code, stderr } = await run(...client(), '--model-name', 'other');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: HTTP 404: .*other.*\n$/);
  });

  it('that the path of the address is wrong', async () => {
    const root = url.replace(/\/v1$/, '');
    const { code, stderr } = await run('--url', root, '--api-key', 'secret');
    expect(code).toBe(1);
    expect(stderr).toBe(
      `error: HTTP 404: no model server has ${root}/models: --url must be like ${root}/v1\n`,
    );
  });

  it('that the address is of something else', async () => {
    const { origin } = await foreignServer();
    const { code, stderr } = await run('--url', `${origin}/page`);
    expect(code).toBe(1);
    expect(stderr).toBe(`error: ${origin}/page/models does not answer as a model server: check --url\n`);
  });

  it('that the address is none', async () => {
    const { code, stderr } = await run('--url', 'localhost:8000');
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^error: .*'localhost:8000' is invalid. expected an address such as http:\/\/.*\n$/,
    );
  });
});
