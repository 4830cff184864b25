import { exec, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { CliProcess } from '../helpers/cli-process.ts';
import { needsNative } from '../helpers/needs.ts';
import { freePort } from '../helpers/svc-process.ts';

/** Of a stream that nobody waits for: long enough to be still running when it is broken off. */
const ENDLESS = 4000;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-serve-'));
  writeTinyModel(join(folder, 'model'), { seed: 2, config: { max_position_embeddings: 8192 } });
});
afterAll(() => rmSync(folder, { recursive: true }));

const started: CliProcess[] = [];
afterEach(() => {
  for (const { child } of started.splice(0)) child.kill('SIGKILL');
});

async function serve(...args: string[]): Promise<{ cli: CliProcess; url: string }> {
  // The slow backend: streams last long enough to be interrupted.
  const device = args.includes('--device') ? [] : ['--device', 'reference'];
  const common = ['--host', '127.0.0.1', ...device];
  const port = args.includes('--port') ? [] : ['--port', '0'];
  const cli = new CliProcess(['serve', ...common, ...port, ...args], {
    XDG_CACHE_HOME: folder,
    NODE_OPTIONS: `--import=${new URL('../helpers/engine-killer.mjs', import.meta.url).href}`,
  });
  started.push(cli);
  const [, url = ''] = await cli.says(/address +(http:\S+)\/v1/);
  return { cli, url };
}

const model = () => join(folder, 'model');

/** Starts a stream and waits for its first bytes. */
async function openStream(url: string, max_tokens = ENDLESS): Promise<{ rest: () => Promise<string> }> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Once', max_tokens, ignore_eos: true, stream: true, seed: 1 }),
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader?.read())?.value ?? '';
  return {
    async rest() {
      for (let chunk = await reader?.read(); chunk?.value !== undefined; chunk = await reader?.read())
        text += chunk.value;
      return text;
    },
  };
}

const numChunks = (stream: string) => stream.match(/^data: \{/gm)?.length ?? 0;

describe('svc serve', () => {
  it('answers about a picture with a model that sees', async () => {
    const seeing = join(folder, 'seeing');
    writeTinyVisionModel(seeing);
    const { cli, url } = await serve(seeing, '--limit-mm-per-prompt', '{"image": 2}');
    expect(cli.stderr).toMatch(/^ {2}images {7}up to 2 a prompt$/m);
    const data = Buffer.from(await tinyPicture(1)).toString('base64');
    const part = { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } };
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: [part] }], max_tokens: 4 }),
    });
    expect(response.status).toBe(200);
  });

  it('reports what it chose and answers', async () => {
    const { cli, url } = await serve(
      model(),
      '--served-model-name',
      'first',
      'second',
      '--max-model-len',
      '128',
    );
    for (const row of ['model', 'dtype', 'backend', 'kv cache', 'concurrency', 'address', 'api keys']) {
      expect(cli.stderr).toMatch(new RegExp(`^ {2}${row} `, 'm'));
    }
    expect(cli.stderr).toMatch(/requests of 128 tokens at once/);
    expect(cli.stdout).toBe('');
    const models = await (await fetch(`${url}/v1/models`)).text();
    expect(models).toMatch(/"first".*"second"/);
  });

  it('reports what part of disaggregated serving it is', needsNative, async () => {
    const config = { kv_connector: 'P2pNcclConnector', kv_role: 'kv_producer', kv_port: await freePort() };
    const { cli } = await serve(model(), '--device', 'cpu', '--kv-transfer-config', JSON.stringify(config));
    expect(cli.stderr).toMatch(
      new RegExp(`^ {2}kv transfer {2}kv_producer at 127.0.0.1:${config.kv_port}, PUT_ASYNC, no proxy$`, 'm'),
    );
  });

  it('tells at the end of its start how to try it, in lines that work as they are', async () => {
    const { cli, url } = await serve(model(), '--api-key', 'secret', '--max-model-len', '128');
    const [, curl = ''] = await cli.says(/another terminal:\n {2}(curl .*)\n/);
    expect(curl).toContain(`${url}/v1/`);
    const { stdout } = await promisify(exec)(curl.replace('<key>', 'secret'));
    expect(JSON.parse(stdout)).toMatchObject({ choices: [{ index: 0 }], usage: {} });
    const hasTemplate = curl.includes('/v1/chat/');
    const hint = `OPENAI_API_KEY=<key> svc chat --url ${url}/v1`;
    expect(cli.stderr.includes(hint)).toBe(hasTemplate);
  });

  it.each(['SVC_SERVER_DEV_MODE', 'SVC_ALLOW_RUNTIME_LORA_UPDATING'])(
    'does not start where %s is neither on nor off',
    async (name) => {
      const cli = new CliProcess(['serve', model(), '--port', '0'], { [name]: 'maybe' });
      started.push(cli);
      const message = `error: ${name}: expected 1 or 0, true or false, yes or no, on or off, got "maybe"\n`;
      await cli.says(/error: .*\n/);
      expect([await cli.exitCode, cli.stderr]).toEqual([1, message]);
    },
  );

  it('goes on with options of other servers that ask for nothing, and says so of each', async () => {
    const { cli } = await serve(
      '--disable-cascade-attn',
      model(),
      '--swap-space',
      '4',
      '--no-enable-chunked-prefill',
    );
    const told = [...cli.stderr.matchAll(/WARN +(--[\w-]+)(?: 4)? has no effect: \w/g)].map(
      ([, flag]) => flag,
    );
    expect(told).toEqual(['--disable-cascade-attn', '--swap-space', '--no-enable-chunked-prefill']);
  });

  it('makes text with the tokenizer of --tokenizer', async () => {
    const bare = join(folder, 'bare');
    writeTinyModel(bare, { seed: 2, tokenizer: false });
    const { url } = await serve(bare, '--tokenizer', model());
    const response = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'Once', max_tokens: 4 }),
    });
    expect(response.status).toBe(200);
  });

  it('asks for one of the keys of --api-key, and lets the pages of --allowed-origins call', async () => {
    const origins = ['--allowed-origins', 'https://page.example'];
    const { url } = await serve(model(), '--api-key', 'one', 'two', ...origins);
    const ask = (key: string, origin: string) =>
      fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}`, origin } });
    const answers = await Promise.all([
      ask('one', 'https://page.example'),
      ask('two', 'https://other.example'),
      ask('three', 'https://page.example'),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 401]);
    const readers = answers.map(({ headers }) => headers.get('access-control-allow-origin'));
    expect(readers).toEqual(['https://page.example', null, 'https://page.example']);
  });

  it('without a model serves the one that svc brings along, and says so', async () => {
    const { cli, url } = await serve();
    expect(cli.stderr).toMatch(/No model was named: this is the small chat model/);
    expect(await (await fetch(`${url}/v1/models`)).text()).toMatch(/"svc-chat"/);
  });

  it('holds requests to --request-timeout and --scheduling-policy, and opens the routes of its mode', async () => {
    vi.stubEnv('SVC_SERVER_DEV_MODE', '1');
    const { url } = await serve(model(), '--request-timeout', '2', '--scheduling-policy', 'priority');
    vi.unstubAllEnvs();
    const post = (path: string, body: object) =>
      fetch(`${url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    const slow = await post('/v1/completions', { prompt: 'Once', max_tokens: ENDLESS, ignore_eos: true });
    expect(slow.status).toBe(504);
    expect((await post('/v1/completions', { prompt: 'Once', max_tokens: 1, priority: -1 })).status).toBe(200);
    expect(await (await post('/reset_prefix_cache', {})).json()).toBe(true);
  });

  it('on SIGTERM finishes the streams that run, takes no others and exits with 0', async () => {
    const { cli, url } = await serve(model());
    const stream = await openStream(url, 300);
    cli.child.kill('SIGTERM');
    await cli.says(/SIGTERM: shutting down/);
    const text = await stream.rest();
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    expect(text).toMatch(/"finish_reason":"length"/);
    expect(await cli.exitCode).toBe(0);
    await expect(fetch(`${url}/health`)).rejects.toThrow();
  });

  it('aborts what does not finish within --shutdown-timeout, and still exits with 0', async () => {
    const { cli, url } = await serve(model(), '--shutdown-timeout', '0.05');
    const stream = await openStream(url);
    cli.child.kill('SIGINT');
    const text = await stream.rest();
    expect(numChunks(text)).toBeLessThan(ENDLESS);
    expect(await cli.exitCode).toBe(0);
    expect(cli.stderr).toMatch(/1 requests did not finish in 0\.05 s and were aborted/);
  });

  it('on a later signal exits at once', async () => {
    const { cli, url } = await serve(model());
    await openStream(url);
    // As a person does who does not want to wait: again and again.
    const impatience = setInterval(() => cli.child.kill('SIGTERM'), 50);
    expect(await cli.exitCode).toBe(143);
    clearInterval(impatience);
  });

  it('takes signals that come together for one: npm passes on what the terminal has sent already', async () => {
    const { cli, url } = await serve(model());
    const stream = await openStream(url, 100);
    // Whenever it goes on, both are there.
    for (const signal of ['SIGSTOP', 'SIGINT', 'SIGTERM', 'SIGCONT'] as const) cli.child.kill(signal);
    expect(await stream.rest()).toMatch(/"finish_reason":"length"/);
    expect(await cli.exitCode).toBe(0);
  });

  describe('with a thread that is stuck in native code', () => {
    async function serveStuck(): Promise<CliProcess> {
      const pipe = join(folder, 'pipe');
      rmSync(pipe, { force: true });
      execFileSync('mkfifo', [pipe]);
      const cli = new CliProcess(
        ['serve', model(), '--device', 'reference', '--host', '127.0.0.1', '--port', '0'],
        {
          NODE_OPTIONS: `--import=${new URL('../helpers/stuck-thread.mjs', import.meta.url).href}`,
          STUCK_ON: pipe,
        },
      );
      started.push(cli);
      await cli.says(/address +http/);
      cli.child.kill('SIGUSR2');
      await cli.says(/a thread is stuck/);
      return cli;
    }

    it('ends at once on a later signal', async () => {
      const cli = await serveStuck();
      const impatience = setInterval(() => cli.child.kill('SIGTERM'), 50);
      expect(await cli.exitCode).toBe(143);
      clearInterval(impatience);
      expect(cli.stderr).not.toContain('killed');
    });

    it('kills itself at the deadline, and says why', async () => {
      const cli = await serveStuck();
      cli.child.kill('SIGTERM');
      expect(await cli.exitCode).toBe(137);
      expect(cli.stderr).toMatch(/ERROR 1 threads did not end in 5 s: the process is killed/);
    });
  });

  it.each([
    ['1', /ERROR the engine has died: \S/],
    ['2', /ERROR engine [01] of 2 has died: \S/],
  ])(
    'ends with code 1 and the reason when one of %s engines dies, and tells the clients',
    async (size, error) => {
      const { cli, url } = await serve(model(), '--data-parallel-size', size);
      const stream = await openStream(url);
      cli.child.kill('SIGUSR2');
      expect(await stream.rest()).toMatch(/"error":.*engine/);
      expect(await cli.exitCode).toBe(1);
      expect(cli.stderr).toMatch(error);
    },
  );

  it('answers 503 while it gets the model, and SIGTERM ends that with 0', async () => {
    const silentHub = createServer().listen(0, '127.0.0.1');
    await once(silentHub, 'listening');
    const hub = silentHub.address();
    const port = await freePort();
    const flags = ['--host', '127.0.0.1', '--port', String(port)];
    const cli = new CliProcess(['serve', 'org/slow', ...flags], {
      HF_ENDPOINT: `http://127.0.0.1:${typeof hub === 'object' ? hub?.port : ''}`,
      HF_HOME: folder,
    });
    started.push(cli);
    const status = () => fetch(`http://127.0.0.1:${port}/v1/models`).then((response) => response.status);
    await expect.poll(() => status().catch(() => null), { timeout: 20_000 }).toBe(503);
    cli.child.kill('SIGTERM');
    expect(await cli.exitCode).toBe(0);
    silentHub.close();
  });

  it('starts again on the same port after kill -9 in the middle of a stream', async () => {
    const first = await serve(model());
    const stream = await openStream(first.url);
    first.cli.child.kill('SIGKILL');
    await expect(stream.rest()).rejects.toThrow();
    expect(await first.cli.exitCode).toBe(137);
    const second = await serve(model(), '--port', new URL(first.url).port);
    expect((await fetch(`${second.url}/health`)).status).toBe(200);
  });
});
