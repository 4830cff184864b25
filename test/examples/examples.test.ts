// Every program in examples/ runs as its first lines say.

import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
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
      'disaggregated',
      'offline-chat.ts',
      'offline.ts',
      'streaming-client.ts',
    ]);
  });

  it('disaggregated/run.ts asks through 1 prefill and 2 decode instances', needsNative, async () => {
    const lines = (await runExample('disaggregated/run.ts', '1', '2', folder)).split('\n');
    expect(lines[0]).toMatch(/^1 prefill and 2 decode instances behind http:/);
    expect(lines.slice(1).join('\n').length).toBeGreaterThan(1);
  });

  it('offline.ts completes its prompts', async () => {
    const lines = (await runExample('offline.ts', folder)).trimEnd();
    expect(lines.match(/→/g)).toHaveLength(4);
    expect(lines).toMatch(/^Once upon a time →/);
  });

  it('offline-chat.ts answers its questions', async () => {
    expect(await runExample('offline-chat.ts', folder)).toContain('What is your name?\n');
  });

  it('streaming-client.ts streams from a running server', async () => {
    const server = await startServeProcess([folder]);
    try {
      const output = await runExample('streaming-client.ts', `${server.url}/v1`);
      expect(output.length).toBeGreaterThan(1);
    } finally {
      await server.stop();
    }
  });
});
