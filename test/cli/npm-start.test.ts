// `npm start` as people, containers and supervisors run and end it.

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { CliProcess } from '../helpers/cli-process.ts';
import { freePort } from '../helpers/svc-process.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-npm-start-'));
  writeTinyModel(folder, { seed: 2 });
});
afterAll(() => rmSync(folder, { recursive: true }));

let npm: CliProcess;
afterEach(() => signalGroup('SIGKILL'));

/** What a terminal does on Ctrl-C, and a supervisor that ends a whole group. False where no process is left. */
function signalGroup(signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-(npm.child.pid ?? 0), signal);
  } catch {
    return false;
  }
}

async function start(): Promise<string> {
  const port = String(await freePort());
  const flags = ['--host', '127.0.0.1', '--port', port, '--device', 'reference'];
  npm = new CliProcess(['--', folder, ...flags], {}, ['npm', 'start']);
  const [, url = ''] = await npm.says(/address +(http:\S+)\/v1/);
  return url;
}

async function isListening(url: string): Promise<boolean> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  const isOpen = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isOpen;
}

describe('npm start', () => {
  it.each([
    ['SIGTERM to npm', () => npm.child.kill('SIGTERM')],
    ['SIGINT to npm', () => npm.child.kill('SIGINT')],
    ['Ctrl-C in the terminal', () => signalGroup('SIGINT')],
    ['SIGTERM to every process', () => signalGroup('SIGTERM')],
  ])('on %s finishes what runs, exits with 0 and leaves no process and no open port', async (_, end) => {
    const url = await start();
    const response = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'Once', max_tokens: 60, ignore_eos: true, stream: true }),
    });
    end();
    expect(await response.text()).toMatch(/"finish_reason":"length"[\s\S]*data: \[DONE\]\n\n$/);
    expect(await npm.exitCode).toBe(0);
    expect(signalGroup(0)).toBe(false);
    expect(await isListening(url)).toBe(false);
  });
});
