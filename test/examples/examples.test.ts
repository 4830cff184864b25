// Every program in examples/ runs as its first lines say.

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { poolingFolder } from '../engine/pooling-models.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { needsNative } from '../helpers/needs.ts';
import { startServeProcess } from '../helpers/svc-process.ts';

const run = promisify(execFile);

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-examples-'));
  await writeTinyModel(folder, { seed: 4 });
});
afterAll(() => rmSync(folder, { recursive: true }));

async function runExample(name: string, ...args: string[]): Promise<string> {
  const { stdout } = await run(process.execPath, ['--import', 'tsx', `examples/${name}`, ...args], {
    timeout: 60_000,
  });
  return stdout;
}

describe('examples', () => {
  it('are all run here', () => {
    expect(readdirSync('examples').toSorted()).toEqual([
      'ai-sdk.ts',
      'disaggregated',
      'embeddings.ts',
      'offline-adapter.ts',
      'offline-chat.ts',
      'offline-image.ts',
      'offline-streaming.ts',
      'offline.ts',
      'protocols.ts',
      'streaming-client.ts',
      'structured-output.ts',
      'tools.ts',
    ]);
  });

  it('disaggregated/run.ts says what it expects', async () => {
    await expect(runExample('disaggregated/run.ts', '--help')).rejects.toMatchObject({
      code: 2,
      stderr: 'expected: run.ts [prefill instances] [decode instances] [model] [--keep]\n',
    });
  });

  it('disaggregated/run.ts asks through 1 prefill and 2 decode instances', needsNative, async () => {
    const lines = (await runExample('disaggregated/run.ts', '1', '2')).split('\n');
    expect(lines[0]).toMatch(/^1 prefill and 2 decode instances behind http:/);
    expect(lines.slice(1).join('\n').length).toBeGreaterThan(1);
  });

  it('offline.ts completes its prompts', async () => {
    const lines = (await runExample('offline.ts', folder)).trimEnd();
    expect(lines.match(/→/g)).toHaveLength(4);
    expect(lines).toMatch(/^Once upon a time →/);
  });

  it('structured-output.ts fills a form', async () => {
    const [form, mood] = (await runExample('structured-output.ts')).trimEnd().split('\n');
    expect(form).toMatch(/^\{ name: '[^']*', age: \d+ \}$/);
    expect(mood).toMatch(/^(happy|sad)$/);
  });

  it('embeddings.ts embeds texts, and finds one with a reranker', async () => {
    const models = ['bert-cls', 'bert-reranker'].map(poolingFolder);
    const lines = (await runExample('embeddings.ts', ...models)).trimEnd().split('\n');
    expect(lines).toHaveLength(4);
    expect(lines[0]).toMatch(/ → 32 numbers, -?\d/);
    expect(lines[3]).toMatch(/^what is a cat\? → ./);
  });

  it('offline-adapter.ts completes a prompt with and without an adapter', async () => {
    const adapter = join(folder, 'adapter');
    writeTinyAdapter(adapter);
    const [first, second] = (await runExample('offline-adapter.ts', folder, adapter)).split(
      /^(?=adapter: )/m,
    );
    expect(first).toMatch(/^model: ./);
    expect(second!.slice('adapter'.length)).not.toBe(first!.slice('model'.length));
  });

  it('tools.ts runs the function that the model is made to call', async () => {
    expect(await runExample('tools.ts', folder)).toMatch(/^temperature_of\((kitchen|cellar)\) = (21|12)$/m);
  });

  it('ai-sdk.ts streams, fills a form and runs a function through the SDK', async () => {
    const lines = await runExample('ai-sdk.ts');
    expect(lines).toMatch(/^\{ name: '(Ann|Ben)', age: (30|40) \}$/m);
    expect(lines).toMatch(/^temperatureOf\(\{"room":"(kitchen|cellar)"\}\) = (21|12)$/m);
    expect(lines).toMatch(/^\d+ tokens in, \d+ out$/m);
  });

  it('offline-chat.ts answers its questions', async () => {
    expect(await runExample('offline-chat.ts', folder)).toContain('What is your name?\n');
  });

  it('offline-image.ts asks about an image', async () => {
    const [seeing, picture] = [join(folder, 'seeing'), join(folder, 'picture.png')];
    writeTinyVisionModel(seeing);
    writeFileSync(picture, await tinyPicture(1));
    expect(await runExample('offline-image.ts', seeing, picture)).toMatch(/.\n\d+ tokens in the prompt\n$/s);
  });

  it('offline-streaming.ts writes an answer, and ends well when it is interrupted', async () => {
    expect((await runExample('offline-streaming.ts', folder)).length).toBeGreaterThan(1);
    const child = spawn(process.execPath, ['--import', 'tsx', 'examples/offline-streaming.ts', folder]);
    const closed = once(child, 'close');
    await once(child.stdout, 'data');
    child.kill('SIGINT');
    expect(await closed).toEqual([0, null]);
  });

  it('streaming-client.ts and protocols.ts ask a running server', async () => {
    const server = await startServeProcess([folder]);
    try {
      const output = await runExample('streaming-client.ts', `${server.url}/v1`);
      expect(output.length).toBeGreaterThan(1);
      const answers = await runExample('protocols.ts', server.url);
      expect(answers).toMatch(
        /^response: .+\nand then: .+\n\d+ tokens were read\nmessage: .+\nstopped by \w+\n$/s,
      );
    } finally {
      await server.stop();
    }
  });
});

describe('the guides', () => {
  it('offline.md has parts that make one program, which runs', async () => {
    const guide = readFileSync('docs/guides/offline.md', 'utf8');
    const parts = [...guide.matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code);
    const program = parts.join('\n').replace(/'\.\/path\/to\/[^']*'/, JSON.stringify(folder));
    const args = ['--import', 'tsx', '--input-type=module', '--eval', program];
    const { stdout, stderr } = await run(process.execPath, args, { timeout: 60_000 });
    expect(stderr).toBe('');
    const lines = stdout.split('\n');
    expect(lines[0]).toMatch(/^Once upon a time .*(stop|length)$/);
    expect(JSON.parse(lines.at(-2)!).outputs[0].logprobs).toHaveLength(2);
  });
});
