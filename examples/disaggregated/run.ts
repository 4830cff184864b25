// Starts a proxy, prefill instances and decode instances on this machine, sends one request through them and stops:
// npx tsx examples/disaggregated/run.ts [prefill instances] [decode instances] [model] [--keep]
// With --keep it runs on until Ctrl-C; the proxy's page shows the instances.
import { type ChildProcess, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';

/** What `svc` on the command line is. */
const SVC = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));
const START_DEADLINE_MS = 120_000;

const words = process.argv.slice(2).filter((word) => word !== '--keep');
const [numProducers, numConsumers] = [Number(words[0] ?? 1), Number(words[1] ?? 1)];
const model = words[2];
const processes: ChildProcess[] = [];

if (![numProducers, numConsumers].every((count) => Number.isInteger(count) && count >= 0)) {
  console.error('expected: run.ts [prefill instances] [decode instances] [model] [--keep]');
  process.exit(2);
}

try {
  const [port, discoveryPort] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  start('proxy', '--port', String(port), '--discovery-port', String(discoveryPort));
  for (let index = 0; index < numProducers; index += 1) await startInstance('kv_producer', discoveryPort);
  for (let index = 0; index < numConsumers; index += 1) await startInstance('kv_consumer', discoveryPort);
  await untilRegistered(url);
  console.log(`${numProducers} prefill and ${numConsumers} decode instances behind ${url}`);
  console.log(await ask(url, 'Tell me a story about a dog.'));
  if (process.argv.includes('--keep')) await new Promise((resolve) => process.once('SIGINT', resolve));
} finally {
  for (const child of processes) child.kill('SIGTERM');
}

function start(...args: string[]): void {
  processes.push(spawn(process.execPath, [SVC, ...args], { stdio: ['ignore', 'ignore', 'inherit'] }));
}

/** What distinguishes an instance from a plain server is its --kv-transfer-config. */
async function startInstance(role: 'kv_producer' | 'kv_consumer', discoveryPort: number): Promise<void> {
  const port = await freePort();
  const config = {
    kv_connector: 'P2pNcclConnector',
    kv_role: role,
    kv_port: await freePort(),
    kv_connector_extra_config: {
      proxy_ip: '127.0.0.1',
      proxy_port: String(discoveryPort),
      http_port: String(port),
    },
  };
  const options = ['--host', '127.0.0.1', '--port', String(port), '--log-level', 'warn'];
  start(
    'serve',
    ...(model === undefined ? [] : [model]),
    ...options,
    '--kv-transfer-config',
    JSON.stringify(config),
  );
}

/** Instances register with the proxy when their model is loaded. */
async function untilRegistered(url: string): Promise<void> {
  const deadline = Date.now() + START_DEADLINE_MS;
  while (Date.now() < deadline) {
    if (processes.some(({ exitCode }) => exitCode !== null))
      throw new Error('a process has ended: see above');
    const answer = await fetch(`${url}/instances`).catch(() => null);
    const list: { instances: unknown[] } = JSON.parse((await answer?.text()) ?? '{"instances": []}');
    if (list.instances.length === numProducers + numConsumers) return;
    await sleep(100);
  }
  throw new Error(`the instances have not registered within ${START_DEADLINE_MS / 1000} seconds`);
}

/** Any client of the OpenAI protocol talks to the proxy as to a single server. */
async function ask(url: string, content: string): Promise<string | null | undefined> {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'unused' });
  const name = (await client.models.list()).data[0]?.id ?? '';
  const messages = [{ role: 'user' as const, content }];
  const answer = await client.chat.completions.create({ model: name, messages, max_tokens: 100 });
  return answer.choices[0]?.message.content;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const address = probe.address();
  probe.close();
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}
