// npm run fuzz: damages models and loads them for thirteen seconds, and sends requests to a server for seven;
// `npm run fuzz -- http --runs 100000 --seconds 600` does one of them, and more of it.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { fuzzHttp } from './http.ts';
import { type FuzzResult, fuzzLoaders } from './loaders.ts';

interface Plan {
  readonly seed: number;
  readonly start: number;
  readonly runs: number;
  readonly seconds: number;
}

const SHARES = { loaders: 2 / 3, http: 1 / 3 } as const;
const FUZZERS = { loaders: async (plan: Plan) => fuzzLoaders(plan), http: fuzzServer } as const;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    start: { type: 'string', default: '0' },
    runs: { type: 'string', default: '100000' },
    seconds: { type: 'string', default: '20' },
  },
});
const seed = Number(values.seed);
for (const name of ['loaders', 'http'] as const) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  const seconds = Number(values.seconds) * (positionals.length === 1 ? 1 : SHARES[name]);
  const plan = { seed, start: Number(values.start), runs: Number(values.runs), seconds };
  report(name, await FUZZERS[name](plan));
}

/** A process of its own: a crash of it is a fault, and the end of the run. */
async function fuzzServer(plan: Plan): Promise<FuzzResult> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-fuzz-'));
  writeTinyModel(folder, { seed: 5, config: { max_position_embeddings: 64 } });
  const options = [
    '--served-model-name',
    'tiny',
    '--trust-request-chat-template',
    '--log-level',
    'error',
    '--shutdown-timeout',
    '1',
  ];
  const svc = await startServeProcess([folder, ...options]);
  try {
    const result = await fuzzHttp({ ...plan, url: svc.url });
    if (svc.stderr() !== '') console.error(`the log of the server:\n${svc.stderr().slice(-5000)}`);
    return result;
  } finally {
    await svc.stop();
    rmSync(folder, { recursive: true });
  }
}

function report(name: string, { runs, refused, faults }: FuzzResult): void {
  for (const { target, run, problem } of faults) {
    console.error(`${target}, ${name} --seed ${seed} --start ${run} --runs 1:\n${problem.slice(0, 1500)}\n`);
  }
  console.log(
    `${name}, seed ${seed}: ${runs} runs, ${refused} refused, ${runs - refused - faults.length} taken, ${faults.length} faults`,
  );
  if (faults.length > 0) process.exitCode = 1;
}
