import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CliProcess, runCli } from '../helpers/cli-process.ts';
import { SVC_COMMAND } from '../helpers/svc-command.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-cli-'));
});
afterAll(() => rm(folder, { recursive: true }));

describe('svc', () => {
  it('without a command shows what it can do', async () => {
    const { code, stdout } = await runCli([]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/Usage: svc .*\n[\s\S]*serve/);
  });

  it('tells its version', async () => {
    const { code, stdout } = await runCli(['--version']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it('suggests the command that was meant', async () => {
    const { code, stderr } = await runCli(['sevre']);
    expect(code).toBe(2);
    expect(stderr).toBe("error: unknown command 'sevre'\n(Did you mean serve?)\n");
  });

  it('fails where the disk has no room for what it prints', async () => {
    const full = ['sh', '-c', 'exec "$@" > /dev/full', 'sh', process.execPath, ...SVC_COMMAND] as const;
    const cli = new CliProcess(['models', 'list', '--json', '--download-dir', folder], {}, full);
    expect([await cli.exitCode, cli.stderr]).toEqual([
      1,
      expect.stringMatching(/^error: stdout cannot be written: ENOSPC: .*\n$/),
    ]);
  });
});

describe('svc serve', () => {
  it('shows its options in groups', async () => {
    const { code, stdout } = await runCli(['serve', '--help']);
    expect(code).toBe(0);
    const groups = [...stdout.matchAll(/^(\w+):$/gm)].map(([, name]) => name);
    expect(groups).toEqual([
      'Arguments',
      'General',
      'Server',
      'Answers',
      'TLS',
      'Model',
      'Images',
      'Memory',
      'Scheduling',
      'Speculation',
      'Adapters',
      'Hardware',
      'Examples',
    ]);
    expect(stdout).toMatch(/^Server:\n(?: +.*\n)*? +--port <n> /m);
  });

  it.each(['serve', 'proxy', 'chat', 'run-batch', 'download', 'bench serve'])(
    'fits the help of %s into 80 columns',
    async (command) => {
      const { stdout } = await runCli([...command.split(' '), '--help']);
      expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
    },
  );

  it('ends quietly when the reader of its help has left', async () => {
    const cli = new CliProcess(['serve', '--help']);
    cli.child.stdout?.destroy();
    expect(await cli.exitCode).toBe(0);
    expect(cli.stderr).toBe('');
  });

  it('suggests the option that was meant', async () => {
    const { code, stderr } = await runCli(['serve', '--prot', '1']);
    expect(code).toBe(2);
    expect(stderr).toBe("error: unknown option '--prot'\n(Did you mean --port?)\n");
  });

  it('says which option lacks its value', async () => {
    const { code, stderr } = await runCli(['serve', '--port']);
    expect(code).toBe(2);
    expect(stderr).toBe("error: option '--port <n>' argument missing\n");
  });

  it.each([
    [['--port', 'http'], 'error: --port: expected a whole number from 0 to 65535, got "http"\n'],
    [
      ['a', '--model', 'b'],
      'error: the model is given twice, as a and as --model b: give it once, without --model\n',
    ],
    [
      ['--quantization', 'awq'],
      'error: --quantization: expected one of int8, int4, fp8 (what is published quantised, as by AWQ or GPTQ, needs none: that is known from its files), got "awq"\n',
    ],
    [
      ['--tensor-parallel-size', '2', '--device', 'reference'],
      'error: --tensor-parallel-size 2 with --device reference is not available yet in this version of svc: use --device cpu or cuda, or 1\n',
    ],
    [
      ['--swap-space', '4', '--disable-cascade-attn', '--num-gpu-blocks-override', '512'],
      'error: --num-gpu-blocks-override 512 is not available in svc: the KV cache is sized in bytes; use --kv-cache-memory-bytes\n',
    ],
  ])('refuses %j in one line', async (args, message) => {
    expect(await runCli(['serve', ...args])).toEqual({ code: 2, stdout: '', stderr: message });
  });

  it.each(['serve --port 0 --host 127.0.0.1', 'bench latency'])(
    'refuses in one line of svc %s what needs a GPU where there is none',
    async (command) => {
      const args = [...command.split(' '), '--attention-backend', 'FLASH_ATTN'];
      const { code, stderr } = await runCli(args, { CUDA_VISIBLE_DEVICES: '-1' });
      expect(code).toBe(2);
      expect(stderr).toMatch(
        /^error: --attention-backend FLASH_ATTN computes on .* use CPU_ATTN or auto\n$/m,
      );
      expect(stderr).not.toMatch(/\n {4}at /);
    },
  );

  it('refuses limits that contradict each other, with the fix', async () => {
    const { code, stderr } = await runCli(['serve', '--max-num-batched-tokens', '8', '--max-num-seqs', '16']);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^error: --max-num-batched-tokens 8 is less than --max-num-seqs 16: .*raise the first to 16.*\n$/,
    );
  });

  it('shows where a config file breaks', async () => {
    const path = join(folder, 'bad.yaml');
    await writeFile(path, 'port: 1\nseed: [1\n');
    const { code, stderr } = await runCli(['serve', '--config', path]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error: .*bad\.yaml:3:1: .*\n$/);
  });

  it('knows the options of other servers in a config file too, with the place', async () => {
    const path = join(folder, 'foreign.yaml');
    await writeFile(path, 'swap-space: 4\nenable-auto-tool-choice: true\ntool_server: demo\n');
    const { code, stderr } = await runCli(['serve', '--config', path]);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /^error: .*foreign\.yaml:3:1 \(tool_server\) demo is not available in svc: clients .*\n$/,
    );
  });

  it('names the variable whose value is wrong', async () => {
    const { code, stderr } = await runCli(['serve'], { SVC_NUM_THREADS: 'many' });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error: SVC_NUM_THREADS: expected a whole number from 1 to 1024, got "many"\n$/);
  });

  it('tells in one line that the port is taken', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    const port = typeof address === 'object' ? String(address?.port) : '';
    const { code, stderr } = await runCli(['serve', '--host', '127.0.0.1', '--port', port]);
    other.close();
    expect(code).toBe(1);
    expect(stderr).toMatch(
      new RegExp(`^error: port ${port} is already in use on 127\\.0\\.0\\.1: .*--port\\n$`),
    );
  });

  it('tells that the port for peers is taken before the model is loaded', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    const port = typeof address === 'object' ? String(address?.port) : '';
    const transfer = `{"kv_connector": "P2pNcclConnector", "kv_role": "kv_producer", "kv_port": ${port}}`;
    const { code, stderr } = await runCli(['serve', '--port', '0', '--kv-transfer-config', transfer]);
    other.close();
    expect(code).toBe(1);
    expect(stderr).toBe(`error: kv_port ${port} of 127.0.0.1 is taken: give this instance another kv_port\n`);
  });

  it('tells of a variable that is nearly one of its own', async () => {
    const { stderr } = await runCli(['serve', './no/such/model', '--port', '0'], { SVC_API_KEYS: 'secret' });
    expect(stderr).toMatch(
      /WARN +there is no environment variable SVC_API_KEYS; did you mean SVC_API_KEY\?\n/,
    );
    expect(stderr).not.toContain('secret');
  });

  it('tells in one line that the model does not exist', async () => {
    const { code, stderr } = await runCli(['serve', './no/such/model', '--port', '0', '--host', '127.0.0.1']);
    expect(code).toBe(1);
    expect(stderr).toMatch(/error: the folder \.\/no\/such\/model does not exist: .*\n$/);
    expect(stderr).not.toMatch(/\n {4}at /);
  });
});

describe('svc proxy', () => {
  it('tells of a variable that is nearly one of its own', async () => {
    const cli = new CliProcess(['proxy', '--port', '0', '--discovery-port', '0'], { SVC_API_KEYS: 'secret' });
    await cli.says(/WARN +there is no environment variable SVC_API_KEYS; did you mean SVC_API_KEY\?\n/);
    cli.child.kill('SIGKILL');
  });

  it('refuses a key for its instances that no header can carry, without showing it', async () => {
    const { code, stderr } = await runCli(['proxy'], { OPENAI_API_KEY: 'schl\u00fcssel' });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error: OPENAI_API_KEY has a character that a header cannot carry.*\n$/);
    expect(stderr).not.toContain('schl');
  });
});
