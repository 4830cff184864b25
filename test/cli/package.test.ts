// The packed package in a project of its own, as people get it who do not clone the repository.

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { CliProcess } from '../helpers/cli-process.ts';

let project: string;
let files: string[];
let cli: CliProcess | null = null;

/** Unpacks what `npm pack` makes and puts our own dependencies beside it: nothing is downloaded. */
beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), 'svc-project-'));
  const modules = join(project, 'node_modules');
  mkdirSync(join(modules, 'svc'), { recursive: true });
  const pack = ['pack', '--silent', '--ignore-scripts', '--pack-destination', project];
  const tarball = join(project, execFileSync('npm', pack, { encoding: 'utf8' }).trim());
  execFileSync('tar', ['xzf', tarball, '--strip-components=1', '-C', join(modules, 'svc')]);
  files = execFileSync('tar', ['tzf', tarball], { encoding: 'utf8' }).trim().split('\n');
  for (const name of readdirSync('node_modules').filter((name) => !name.startsWith('.')))
    symlinkSync(resolve('node_modules', name), join(modules, name));
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }');
  writeTinyModel(join(project, 'model'), { seed: 2 });
});
afterAll(() => rmSync(project, { recursive: true }));
afterEach(() => cli?.child.kill('SIGKILL'));

describe('the packed package', () => {
  it('holds what runs, what is compiled at install, and nothing of tests and builds', () => {
    const has = (name: string) => files.includes(`package/${name}`);
    const wanted = [
      'dist/index.js',
      'dist/index.d.ts',
      'dist/cli/main.js',
      'native/Makefile',
      'native/cuda/launch.h',
      'scripts/build-cuda.mjs',
      'models/svc-chat/config.json',
      'docs/guides/offline.md',
      'docs/grafana-dashboard.json',
    ];
    expect(wanted.filter((name) => !has(name))).toEqual([]);
    expect(
      files.filter((name) =>
        /^package\/(test|bench|node_modules|native\/build(?!\/cuda-kernels\.(fatbin|ptx)$)|dist\/\.build)/.test(
          name,
        ),
      ),
    ).toEqual([]);
  });

  it('lets a program import { LLM } from svc', () => {
    const program = `
      import { LLM } from 'svc';
      const llm = new LLM({ model: './model', device: 'reference' });
      const [output] = await llm.generate(['Once'], { temperature: 0, max_tokens: 3 }, { useProgressBar: false });
      console.log(output.outputs[0].token_ids.length);
      await llm.close();`;
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: project,
      encoding: 'utf8',
    });
    expect({ stdout, stderr }).toEqual({ stdout: '3\n', stderr: '' });
  });

  it('brings along examples that run in the project', () => {
    const example = ['--import', 'tsx', 'node_modules/svc/examples/offline.ts', './model'];
    const { stdout } = spawnSync(process.execPath, example, { cwd: project, encoding: 'utf8' });
    expect(stdout.match(/→/g)).toHaveLength(4);
  });

  it('throws the errors that it exports, those of its threads too', () => {
    const program = `
      import { InvalidRequestError, LLM } from 'svc';
      const llm = new LLM({ model: './model', device: 'reference' });
      const params = { max_tokens: 3, structured_outputs: { regex: '(a' } };
      const error = await llm.generate('Once', params).catch((thrown) => thrown);
      console.log(error instanceof InvalidRequestError, error.param);
      await llm.close();`;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: project,
      encoding: 'utf8',
    });
    expect(stdout).toBe('true structured_outputs\n');
  });

  it('has declarations that a strict program can check, those of its packages included', () => {
    const program = `
      import { type ChatMessageInput, LLM } from 'svc';
      const llm = new LLM();
      const stop = ['a', 'b'] as const;
      for await (const { text } of llm.stream('Once', { stop })) console.log(text);
      const messages: ChatMessageInput[] = [{ role: 'user', content: 'Hello' }];
      for await (const { delta } of llm.streamChat(messages)) console.log(delta.content);
      const [answer] = await llm.chat(messages);
      if (answer?.outputs[0] !== undefined) messages.push(answer.outputs[0].message);
      await llm.close();`;
    writeFileSync(join(project, 'program.ts'), program);
    const compilerOptions = {
      strict: true,
      skipLibCheck: false,
      types: ['node'],
      noEmit: true,
      module: 'nodenext',
      target: 'es2023',
    };
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['program.ts'] }));
    const { stdout } = spawnSync(resolve('node_modules/.bin/tsc'), [], { cwd: project, encoding: 'utf8' });
    expect(stdout).toBe('');
  });

  it('serves with its own command', async () => {
    const main = join(project, 'node_modules/svc/dist/cli/main.js');
    const flags = [join(project, 'model'), '--device', 'reference', '--host', '127.0.0.1', '--port', '0'];
    cli = new CliProcess(['serve', ...flags], {}, [process.execPath, main]);
    const [, url = ''] = await cli.says(/address +(http:\S+)\/v1/);
    expect((await fetch(`${url}/health`)).status).toBe(200);
  });
});
