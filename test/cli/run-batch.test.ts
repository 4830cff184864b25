// svc run-batch as a process: files in, files out, killed in between.

import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { CliProcess } from '../helpers/cli-process.ts';
import { needs } from '../helpers/needs.ts';
import { SVC_COMMAND } from '../helpers/svc-command.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { until } from '../helpers/until.ts';

const Result = z.object({
  id: z.string().startsWith('batch_req_'),
  custom_id: z.string().nullable(),
  response: z.object({ status_code: z.int(), request_id: z.string(), body: z.looseObject({}) }).nullable(),
  error: z.object({ message: z.string(), code: z.int() }).nullable(),
});

const Answer = z.object({
  choices: z.tuple([
    z.object({
      message: z.object({ role: z.string() }),
      logprobs: z.object({ content: z.tuple([z.object({ token: z.string() })]) }),
    }),
  ]),
  usage: z.object({ prompt_tokens: z.int() }),
});

const needsNamespaces = needs(
  spawnSync('unshare', ['--pid', '--fork', '--mount-proc', 'true']).status === 0,
  'this user may not make a namespace of processes',
);

const folder = temporaryFolders()();
mkdirSync(folder);

const started: CliProcess[] = [];
afterEach(() => {
  for (const { child } of started.splice(0)) child.kill('SIGKILL');
});

/** A process that is killed after the test, if it is still there. */
function start(...command: ConstructorParameters<typeof CliProcess>): CliProcess {
  const cli = new CliProcess(...command);
  started.push(cli);
  return cli;
}

async function run(...args: readonly string[]): Promise<{ code: number; stderr: string }> {
  const svc = new CliProcess(['run-batch', ...args]);
  return { code: await svc.exitCode, stderr: svc.stderr };
}

function write(name: string, lines: readonly string[]): string {
  const path = join(folder, name);
  writeFileSync(path, lines.map((line) => `${line}\n`).join(''));
  return path;
}

function request(id: string, body: object, url = '/v1/completions', method = 'POST'): string {
  return JSON.stringify({ custom_id: id, method, url, body });
}

/** Some are answered then, and some are not. */
async function killAfterAnswers(args: readonly string[]): Promise<void> {
  const killed = new CliProcess(['run-batch', ...args, '--max-num-seqs', '1']);
  const journal = `${args[args.indexOf('-o') + 1]}.journal`;
  await until(() => existsSync(journal) && numLines(journal) > 2);
  killed.child.kill('SIGKILL');
  await killed.exitCode;
}

function numLines(path: string): number {
  return readFileSync(path, 'utf8').split('\n').length - 1;
}

function resultsOf(path: string): z.output<typeof Result>[] {
  return readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => Result.parse(JSON.parse(line)));
}

function textsOf(path: string): readonly unknown[] {
  return resultsOf(path).map(({ custom_id, response }) => [custom_id, response?.body.choices]);
}

describe('svc run-batch', () => {
  it('answers each line in its order, and what is wrong with one stops no other', async () => {
    const input = write('mixed.jsonl', [
      request(
        'chat',
        { messages: [{ role: 'user', content: 'Hello' }], model: 'mine' },
        '/v1/chat/completions',
      ),
      'not json',
      '',
      request('text', { prompt: 'Once', max_tokens: 5 }),
      request('elsewhere', {}, '/v1/nothing'),
      request('refused', { prompt: 'Once', max_tokens: -5 }),
      request('other model', { prompt: 'Once', model: 'another' }),
      request('stream', { prompt: 'Once', stream: true }),
      request('read', {}, '/v1/completions', 'GET'),
      request('text', { prompt: 'Twice', max_tokens: 5 }),
      request('text', { prompt: 'Once', max_tokens: 5 }),
    ]);
    const output = join(folder, 'mixed.out');
    const { code, stderr } = await run('-i', input, '-o', output, '--served-model-name', 'mine');
    expect([code, stderr.trim()]).toEqual([0, `${output}: 10 answers, 8 of them with an error`]);
    const results = resultsOf(output);
    const shown = results.map(({ custom_id, response, error }) => [
      custom_id,
      response?.status_code,
      error?.message.split(',')[0],
    ]);
    expect(shown).toEqual([
      ['chat', 200, undefined],
      [null, undefined, 'line 2: not json is not JSON'],
      ['text', 200, undefined],
      ['elsewhere', undefined, expect.stringContaining('line 5: url must be one of /v1/chat/completions')],
      ['refused', 400, 'max_tokens must be at least 1'],
      ['other model', 404, expect.stringContaining('another')],
      ['stream', undefined, 'line 8: body.stream must be false or left out: a batch has no streams'],
      ['read', undefined, 'line 9: method must be "POST"'],
      ['text', undefined, 'line 10: custom_id "text" is that of line 4: give each line its own'],
      ['text', undefined, 'line 11: custom_id "text" is that of line 4: give each line its own'],
    ]);
    expect(new Set(results.map(({ id }) => id)).size).toBe(10);
    expect(existsSync(`${output}.journal`)).toBe(false);
  });

  it('answers as svc serve does with the same options', async () => {
    const messages = [{ role: 'user', content: 'Hello' }];
    const body = { messages, max_tokens: 1, logprobs: true, temperature: 0 };
    const input = write('options.jsonl', [request('chat', body, '/v1/chat/completions')]);
    const output = join(folder, 'options.out');
    const template = '{{ mood }}{{ messages[0].content }}';
    const answerOf = async (...args: readonly string[]) => {
      const { code, stderr } = await run('-i', input, '-o', output, '--chat-template', template, ...args);
      expect([code, stderr.trim()]).toEqual([0, `${output}: 1 answers`]);
      return Answer.parse(resultsOf(output)[0]!.response?.body);
    };
    const plain = await answerOf();
    const options = [
      '--response-role',
      'helper',
      '--default-chat-template-kwargs',
      '{"mood": "Calm as ever. "}',
      '--return-tokens-as-token-ids',
    ];
    const given = await answerOf(...options);
    expect([plain, given].map(({ choices: [choice] }) => choice.message.role)).toEqual([
      'assistant',
      'helper',
    ]);
    expect(given.choices[0].logprobs.content[0].token).toMatch(/^token_id:\d+$/);
    expect(given.usage.prompt_tokens).toBeGreaterThan(plain.usage.prompt_tokens);
  });

  it('goes on where it was killed, with the answers of a batch that never was', async () => {
    const body = (i: number) => ({ prompt: `Story ${i}:`, max_tokens: 25, seed: i, ignore_eos: true });
    const requests = Array.from({ length: 12 }, (_, i) => request(`${i}`, body(i)));
    // Those that are wrong have their answers at once, long before the kill.
    const input = write('long.jsonl', ['not json', '{}', ...requests]);
    const [whole, output] = [join(folder, 'whole.out'), join(folder, 'killed.out')];
    expect((await run('-i', input, '-o', whole)).code).toBe(0);
    await killAfterAnswers(['-i', input, '-o', output]);
    expect(existsSync(output)).toBe(false);
    // The line that the kill may have cut.
    writeFileSync(`${output}.journal`, '{"of":"half a li', { flag: 'a' });
    const { code, stderr } = await run('-i', input, '-o', output);
    expect(code).toBe(0);
    expect(stderr).toMatch(/going on: \d+ of 14 requests are answered/);
    expect(stderr).toContain('14 answers, 2 of them with an error');
    expect(textsOf(output)).toEqual(textsOf(whole));
  });

  it('ends where its engine does, and keeps only what the model has answered', async () => {
    const body = (i: number) => ({ prompt: `Story ${i}:`, max_tokens: 25, seed: i, ignore_eos: true });
    const requests = Array.from({ length: 150 }, (_, i) => request(`${i}`, body(i)));
    const input = write('dying.jsonl', requests);
    const output = join(folder, 'dying.out');
    const helper = (name: string) => `--import=${new URL(`../helpers/${name}.mjs`, import.meta.url).href}`;
    const stuckOn = join(folder, 'pipe');
    execFileSync('mkfifo', [stuckOn]);
    const dying = start(['run-batch', '-i', input, '-o', output, '--max-num-seqs', '1'], {
      NODE_OPTIONS: `${helper('engine-killer')} ${helper('stuck-thread')}`,
      STUCK_ON: stuckOn,
      STUCK_AT: 'SIGWINCH',
    });
    await until(() => existsSync(`${output}.journal`) && numLines(`${output}.journal`) > 3);
    dying.child.kill('SIGWINCH');
    await dying.says(/a thread is stuck/);
    dying.child.kill('SIGUSR2');
    // One of its threads never ends: the process is killed.
    expect(await dying.exitCode).toBe(137);
    expect(dying.stderr).toMatch(
      /^error: the engine has died: .*; what was answered is kept: give the same/m,
    );
    expect(existsSync(output)).toBe(false);
    const { code, stderr } = await run('-i', input, '-o', output);
    expect([code, stderr]).toEqual([0, expect.stringMatching(/going on: \d+ of 150 .*\n.*: 150 answers\n$/)]);
  });

  it('keeps the answers where there is no room for the last of them in the output', async () => {
    const body = { prompt: 'Once', max_tokens: 100, ignore_eos: true, logprobs: 5 };
    const input = write('full.jsonl', [request('a', body)]);
    const output = join(folder, 'full.out');
    // So that all are in the journal and none in the output.
    mkdirSync(`${output}.unfinished`);
    expect((await run('-i', input, '-o', output)).code).toBe(1);
    rmdirSync(`${output}.unfinished`);
    const limited = ['sh', '-c', 'ulimit -f 1 && exec "$@"', 'sh', process.execPath, ...SVC_COMMAND] as const;
    const full = start(['run-batch', '-i', input, '-o', output], {}, limited);
    expect([await full.exitCode, full.stderr]).toEqual([
      2,
      expect.stringContaining('full.out cannot be written: EFBIG'),
    ]);
    expect(existsSync(output)).toBe(false);
    const { code, stderr } = await run('-i', input, '-o', output);
    expect([code, stderr]).toEqual([0, expect.stringContaining('going on: 1 of 1 requests are answered')]);
    expect(resultsOf(output)).toHaveLength(1);
  });

  it('writes an output in one process at a time', async () => {
    const input = write('shared.jsonl', [request('a', { prompt: 'Once', max_tokens: 5 })]);
    const output = join(folder, 'shared.out');
    const first = new CliProcess(['run-batch', '-i', input, '-o', output]);
    await until(() => existsSync(`${output}.journal`));
    // So that it is still there when the second comes.
    first.child.kill('SIGSTOP');
    const { code, stderr } = await run('-i', input, '-o', output);
    first.child.kill('SIGCONT');
    expect([code, stderr]).toEqual([2, expect.stringContaining('is being written by another process')]);
    expect(await first.exitCode).toBe(0);
    expect(resultsOf(output)).toHaveLength(1);
    expect(readdirSync(folder).filter((name) => name.startsWith('shared.out.'))).toEqual([]);
  });

  describe('told to end by a signal', () => {
    const args = (name: string) => {
      const body = (i: number) => ({ prompt: `Story ${i}:`, max_tokens: 300, seed: i, ignore_eos: true });
      const lines = Array.from({ length: 40 }, (_, i) => request(`${i}`, body(i)));
      return [
        'run-batch',
        '-i',
        write(`${name}.jsonl`, lines),
        '-o',
        join(folder, name),
        '--max-num-seqs',
        '1',
      ];
    };
    const left = (name: string) => readdirSync(folder).filter((file) => file.startsWith(`${name}.journal`));
    const begin = (name: string) => until(() => existsSync(join(folder, `${name}.journal`)));

    it('ends by it, and lets others go on at once', async () => {
      const cli = start(args('ended.out'));
      await begin('ended.out');
      expect(left('ended.out')).toContain('ended.out.journal.lock');
      cli.child.kill('SIGTERM');
      await once(cli.child, 'exit');
      expect([cli.child.signalCode, left('ended.out')]).toEqual(['SIGTERM', ['ended.out.journal']]);
    });

    it('ends as the first process of a container, too', needsNamespaces, async () => {
      const container = ['--pid', '--fork', '--kill-child', '--mount-proc', process.execPath, ...SVC_COMMAND];
      const cli = start(args('contained.out'), {}, ['unshare', ...container]);
      await begin('contained.out');
      const { pid } = cli.child;
      process.kill(Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')), 'SIGTERM');
      expect(await cli.exitCode).toBe(143);
      expect(left('contained.out')).toEqual(['contained.out.journal']);
    });
  });

  it('refuses what it cannot do before it loads a model', async () => {
    const output = join(folder, 'never.out');
    const one = write('one.jsonl', [request('a', {})]);
    for (const [args, message] of [
      [['-i', join(folder, 'missing'), '-o', output], 'missing cannot be read: ENOENT'],
      [['-i', write('empty.jsonl', ['']), '-o', output], 'has no requests'],
      [['-i', folder, '-o', output], 'must be a file, it is a folder'],
      [['-i', '/dev/null', '-o', output], 'must be a file, it is a pipe or device'],
      [['-i', one, '-o', '/proc/none'], 'cannot be written'],
      [['-i', one, '-o', one], `${one} would write over the requests`],
      [['-i', one, '-o', folder], `${folder} is a folder, pipe or device`],
      [['-o', output], "required option '-i, --input-file <file>' not specified"],
    ] as const) {
      const { code, stderr } = await run(...args);
      expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
    }
  });

  it('lets nobody read answers who could not read the output that they replace', async () => {
    const body = { prompt: 'Once', max_tokens: 300, ignore_eos: true };
    const input = write(
      'private.jsonl',
      Array.from({ length: 12 }, (_, i) => request(`${i}`, body)),
    );
    const output = join(folder, 'private.out');
    writeFileSync(output, 'an earlier output', { mode: 0o600 });
    const mode = (path: string) => statSync(path).mode & 0o777;
    await killAfterAnswers(['-i', input, '-o', output]);
    expect(mode(`${output}.journal`)).toBe(0o600);
    expect((await run('-i', input, '-o', output)).code).toBe(0);
    expect([resultsOf(output).length, mode(output)]).toEqual([12, 0o600]);
  });

  it('writes to the file that a link points to', async () => {
    const input = write('linked.jsonl', ['not json']);
    const [target, link] = [join(folder, 'target.out'), join(folder, 'link.out')];
    symlinkSync('target.out', link);
    expect((await run('-i', input, '-o', link)).code).toBe(0);
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
    expect(resultsOf(target)).toHaveLength(1);
  });

  it('does not mix the answers of two models, and knows a model by what it is', async () => {
    const models = temporaryFolders();
    const [model, same] = [models(), models()];
    for (const path of [model, same]) writeTinyModel(path, { seed: 1 });
    const body = (i: number) => ({ prompt: `Story ${i}:`, max_tokens: 300, seed: i, ignore_eos: true });
    const input = write(
      'models.jsonl',
      Array.from({ length: 12 }, (_, i) => request(`${i}`, body(i))),
    );
    const output = join(folder, 'models.out');
    await killAfterAnswers([model, '-i', input, '-o', output]);
    const kept = readFileSync(`${output}.journal`, 'utf8');
    writeTinyModel(model, { seed: 2 });
    for (const args of [[model], [same, '--quantization', 'int8'], [same, '--chat-template', '{{ 1 }}']]) {
      const { code, stderr } = await run(...args, '-i', input, '-o', output);
      expect([code, stderr]).toEqual([
        2,
        expect.stringMatching(/journal has answers of svc-\S+ options=\S+, not of svc-/),
      ]);
    }
    expect(readFileSync(`${output}.journal`, 'utf8')).toBe(kept);
    const { code, stderr } = await run(same, '-i', input, '-o', output);
    expect([code, stderr]).toEqual([0, expect.stringContaining('of 12 requests are answered')]);
  });
});
