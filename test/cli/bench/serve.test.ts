// svc bench serve against a real server.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CliProcess, runCli } from '../../helpers/cli-process.ts';
import { type SvcProcess, startServeProcess } from '../../helpers/svc-process.ts';
import { temporaryFolders } from '../../helpers/temporary-folder.ts';

const folder = temporaryFolders()();
mkdirSync(folder);

let svc: SvcProcess;
beforeAll(async () => {
  svc = await startServeProcess(['--api-key', 'secret']);
});
afterAll(() => svc.stop());

async function bench(...args: readonly string[]) {
  const command = new CliProcess(['bench', 'serve', '--url', `${svc.url}/v1`, ...args]);
  const code = await command.exitCode;
  return { code, stdout: command.stdout, stderr: command.stderr };
}

it('measures a server, and writes what it found as table, JSON and page', async () => {
  const [json, html] = [join(folder, 'a.json'), join(folder, 'a.html')];
  const files = ['--output-json', json, '--output-html', html];
  const load = ['--num-prompts', '8', '--random-input-len', '16', '--output-len', '4', '--ignore-eos'];
  const limits = ['--max-concurrency', '2', '--goodput', 'ttft:100000 e2el:100000', '--request-rate', '200'];
  const { code, stdout, stderr } = await bench('--api-key', 'secret', ...load, ...limits, ...files);
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/^Model +svc-chat$/m);
  expect(stdout).toMatch(/^Time to First Token( +[\d.]+){4}$/m);
  const figures = JSON.parse(readFileSync(json, 'utf8'));
  expect(figures).toMatchObject({
    completed: 8,
    failed: 0,
    total_input_tokens: 8 * 16,
    total_output_tokens: 8 * 4,
    request_rate: 200,
    max_concurrency: 2,
  });
  expect(figures.max_concurrent_requests).toBeLessThanOrEqual(2);
  expect(figures.request_goodput).toBe(figures.request_throughput);
  expect(figures.p99_itl_ms).toBeGreaterThan(0);
  expect(readFileSync(html, 'utf8')).toContain('<circle');
});

it('says what the server says', async () => {
  const { code, stderr } = await bench('--api-key', 'wrong');
  expect([code, stderr]).toEqual([1, expect.stringContaining('none of the keys')]);
  const other = await bench('--api-key', 'secret', '--model', 'another', '--num-prompts', '1');
  expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('404: The model `another`')]);
});

it('ends with an error where no request is answered', async () => {
  const load = ['--num-prompts', '2', '--num-warmups', '0', '--random-input-len', '4000'];
  const { code, stdout, stderr } = await bench('--api-key', 'secret', ...load);
  expect([code, stdout]).toEqual([1, expect.stringMatching(/^Failed requests +2$/m)]);
  expect(stderr).toMatch(
    /^error: no request was answered, so nothing is measured: 400: the prompt has 4000 /m,
  );
});

it('lets answers to conversations be as long as to random prompts', async () => {
  const conversations = [{ conversations: [{ from: 'human', value: 'Tell me a story.' }] }];
  const [data, json] = [join(folder, 'conversations.json'), join(folder, 'd.json')];
  writeFileSync(data, JSON.stringify(conversations));
  const load = ['--dataset-name', 'sharegpt', '--dataset-path', data, '--ignore-eos', '--output-json', json];
  expect(await bench('--api-key', 'secret', ...load)).toMatchObject({ code: 0 });
  expect(JSON.parse(readFileSync(json, 'utf8'))).toMatchObject({ completed: 1, total_output_tokens: 128 });
});

it('refuses files that it cannot write before it asks the server', async () => {
  for (const option of ['output-json', 'output-html']) {
    const { code, stdout, stderr } = await bench('--api-key', 'wrong', `--${option}`, '/nowhere/a');
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(new RegExp(`^error: --${option} /nowhere/a cannot be written: ENOENT`));
  }
});

it('sends all at once where the rate is inf, and takes 0 however it is written', async () => {
  const json = join(folder, 'c.json');
  const load = [
    '--num-prompts',
    '2',
    '--random-input-len',
    '8',
    '--output-len',
    '2',
    '--request-rate',
    'inf',
  ];
  const zeros = ['--temperature', '0.0', '--min-p', '0.0', '--random-range-ratio', '0.0'];
  const { code, stderr } = await bench('--api-key', 'secret', ...load, ...zeros, '--output-json', json);
  expect([code, stderr]).toEqual([0, '']);
  expect(JSON.parse(readFileSync(json, 'utf8'))).toMatchObject({ completed: 2, request_rate: 'inf' });
});

it('takes the flags that other programs of its kind have', async () => {
  const json = join(folder, 'b.json');
  const server = [
    '--host',
    '127.0.0.1',
    '--port',
    new URL(svc.url).port,
    '--header',
    'Authorization=Bearer secret',
  ];
  const load = [
    '--num-prompts',
    '4',
    '--random-input-len',
    '8',
    '--random-prefix-len',
    '8',
    '--random-output-len',
    '3',
  ];
  const fields = [
    '--top-p',
    '0.9',
    '--top-k',
    '5',
    '--min-p',
    '0.1',
    '--logprobs',
    '1',
    '--extra-body',
    '{"ignore_eos": true}',
  ];
  const shown = [
    '--backend',
    'vllm',
    '--goodput',
    'ttft:0.000001',
    'e2el:100000',
    '--metric-percentiles',
    '50,90',
    '--disable-tqdm',
    '--endpoint',
    '/v1/completions',
    '--tokenizer',
    'x',
  ];
  const command = new CliProcess([
    'bench',
    'serve',
    ...server,
    ...load,
    ...fields,
    ...shown,
    '--output-json',
    json,
  ]);
  expect(await command.exitCode).toBe(0);
  expect(command.stderr).toMatch(/^warning: --tokenizer x has no effect: .+\n$/);
  expect(command.stdout).toMatch(/^ms +mean +median +std +p50 +p90$/m);
  const figures = JSON.parse(readFileSync(json, 'utf8'));
  expect(figures).toMatchObject({ completed: 4, total_input_tokens: 4 * 16, total_output_tokens: 4 * 3 });
  expect(figures.p90_ttft_ms).toBeGreaterThanOrEqual(figures.p50_ttft_ms);
  expect(figures.request_goodput).toBe(0);
  const refused = await bench(
    '--api-key',
    'secret',
    '--num-warmups',
    '1',
    '--extra-body',
    '{"temperature": -1}',
  );
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('temperature')]);
});

it.each([
  [
    ['--save-result'],
    '--save-result is not available in svc: figures go into one file; use --output-json <file>',
  ],
  [['--ramp-up-strategy=linear'], '--dataset-name trace'],
  [['--lora_modules', 'a', 'b'], 'name the adapter by --model'],
  [['--endpoint', '/v1/chat/completions'], '--endpoint /v1/chat/completions needs --backend openai-chat'],
  [['--port', '1'], "cannot be used with option '--port <n>'"],
  [['--backend', 'tgi'], "argument 'tgi' is invalid. expected openai or openai-chat"],
  [['--goodput', 'ttft:1', 'tpot=1'], 'expected limits such as'],
  [['--header', 'X'], '--header X: expected a header such as X-Team=search'],
  [['--metric-percentiles', '50,101'], 'expected numbers from 0 to 100'],
  [['--request-rate', '0'], 'expected a number above 0, or inf'],
  [['--temperature', '-1'], 'expected a number of at least 0'],
  [['--random-range-ratio', '1'], 'expected a number from 0 to below 1'],
  [['--extra-body', '[]'], 'expected an object of JSON'],
])('refuses %j by its name', async (args, message) => {
  const { code, stderr } = await bench(...args);
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});

it('refuses an address or a header with which no server can be asked', async () => {
  for (const [flag, value, expected] of [
    ['--url', 'localhost:8000/v1', 'an address such as http://localhost:8000/v1'],
    ['--base-url', 'localhost:8000', 'an address such as http://localhost:8000'],
    ['--host', 'http://localhost', 'the name or IP address of a server, such as localhost'],
    ['--port', '80000', 'a whole number from 1 to 65535'],
    ['--header', 'X-Team=sök€', 'a header such as X-Team=search'],
  ] as const) {
    const { code, stderr } = await runCli(['bench', 'serve', flag, value]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(new RegExp(`^error: .*expected ${expected}\\n$`)),
    ]);
  }
});
