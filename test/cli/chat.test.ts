import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
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

describe('svc chat', () => {
  it('names the model, answers each line and ends with the input', async () => {
    const cli = new CliProcess(['chat', ...client(), '--system-prompt', 'Be brief']);
    await cli.says(/Using model: tiny\nPlease enter a message/);
    cli.child.stdin?.end('Hello\n\nAnd you?\n');
    expect(await cli.exitCode).toBe(0);
    expect(cli.stderr.match(/> /g)).toHaveLength(4);
    expect(cli.stdout.match(/\n/g)?.length).toBeGreaterThanOrEqual(2);
  });

  it('sends the whole conversation with each message', async () => {
    const bodies: string[] = [];
    const fake = createServer(async (request, response) => {
      bodies.push(await text(request));
      response.end('data: {"choices": [{"delta": {"content": "An answer"}}]}\n\ndata: [DONE]\n\n');
    });
    fake.listen(0, '127.0.0.1');
    await once(fake, 'listening');
    const address = fake.address();
    const port = typeof address === 'object' ? address?.port : null;
    const cli = new CliProcess(['chat', '--url', `http://127.0.0.1:${port}/v1`, '--model-name', 'm']);
    cli.child.stdin?.end('One\nTwo\n');
    expect(await cli.exitCode).toBe(0);
    fake.close();
    expect(cli.stdout).toBe('An answer\nAn answer\n');
    const turns = bodies.map(
      (body) => z.object({ messages: z.array(z.unknown()) }).parse(JSON.parse(body)).messages,
    );
    expect(turns).toEqual([
      [{ role: 'user', content: 'One' }],
      [
        { role: 'user', content: 'One' },
        { role: 'assistant', content: 'An answer' },
        { role: 'user', content: 'Two' },
      ],
    ]);
  });

  it('shows an error of the server and goes on', async () => {
    const cli = new CliProcess(['chat', ...client(), '--model-name', 'other']);
    await cli.says(/Please enter a message/);
    cli.child.stdin?.end('Hello\nHello\n');
    expect(await cli.exitCode).toBe(0);
    expect(cli.stderr.match(/error: HTTP 404: .*other/g)).toHaveLength(2);
  });

  it('ends with 1 when the key is wrong', async () => {
    const { code, stderr } = await runCli(['chat', '--url', url, '--api-key', 'guess']);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: HTTP 401: .+\n$/);
  });

  it('says what to do where there is no server', async () => {
    const { code, stderr } = await runCli(['chat', '--url', 'http://127.0.0.1:1/v1', '-q', 'Hello']);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^error: http:\/\/127\.0\.0\.1:1\/v1\/models cannot be reached: start a server with svc serve/,
    );
  });
});
