// The server as its users meet it: a real process, real sockets. Time from start to the first byte, and 32 streams
// at once, each compared with the same request alone.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { freePort } from '../test/helpers/svc-process.ts';
import type { GoldenModel } from '../test/models/golden-cases.ts';
import { STORIES_260K } from './goldens.ts';
import { type Figure, figureOf, type Section } from './report.ts';
import { spawnServer } from './spawn-server.ts';
import { cpuSince, type ThreadCpu, threadTimes } from './thread-cpu.ts';

const NUM_STREAMS = 32;
const NUM_CPU_STREAMS = 64;
const MAX_TOKENS = 64;
/** So many that what a request costs once does not count as a token's. */
const CPU_TOKENS = 400;
/** Of which the one with the median ratio to the floor counts. */
const CPU_ROUNDS = 3;
const START_DEADLINE_MS = 60_000;
const PROMPTS = ['Once upon a time', 'The little dog', 'Lily and Tom', 'One day, a big bird'];

const tokenAnswer = z.object({ choices: z.array(z.object({ token_ids: z.array(z.int()) })) });

interface BenchServer {
  readonly child: ChildProcess;
  readonly url: string;
}

interface StreamResult {
  readonly text: string;
  readonly firstTokenMs: number;
  readonly numTokens: number;
}

export async function serveSection(): Promise<Section> {
  if (STORIES_260K === null)
    return { title: 'Server', figures: [], notes: ['The stories260K model is not here.'] };
  const startedAt = performance.now();
  const server = await startServer(STORIES_260K.folder);
  try {
    const firstByteMs = await waitForFirstByte(server.url, startedAt);
    const alone = await Promise.all(PROMPTS.map((prompt, index) => stream(server.url, prompt, index)));
    const batchStartedAt = performance.now();
    const together = await Promise.all(
      Array.from({ length: NUM_STREAMS }, (_, index) =>
        stream(server.url, PROMPTS[index % PROMPTS.length]!, index % PROMPTS.length),
      ),
    );
    const seconds = (performance.now() - batchStartedAt) / 1000;
    const numEqual = together.filter(
      (result, index) => result.text === alone[index % alone.length]!.text,
    ).length;
    const figures: Figure[] = [
      await compareTexts(server.url, STORIES_260K),
      figureOf('process start to first byte served', firstByteMs / 1000, 's', '< 2 s'),
      {
        name: `${NUM_STREAMS} streams at once: equal to the request alone`,
        value: numEqual,
        unit: 'streams',
        limit: NUM_STREAMS,
        goal: 'all',
      },
      figureOf(
        `${NUM_STREAMS} streams at once: output`,
        together.reduce((sum, { numTokens }) => sum + numTokens, 0) / seconds,
        'tokens/s',
      ),
      figureOf(
        `${NUM_STREAMS} streams at once: slowest first token`,
        Math.max(...together.map(({ firstTokenMs }) => firstTokenMs)),
        'ms',
      ),
    ];
    figures.push(...(await measureCpu(server)));
    const notes = [
      'The limit of the main thread is that of a plain server of node, which writes a chunk of 250 bytes to each of as many streams ' +
        'in turn while the model computes.',
    ];
    return { title: 'Server, stories260K', figures, notes };
  } finally {
    server.child.kill('SIGTERM');
    await once(server.child, 'exit');
  }
}

async function startServer(model: string): Promise<BenchServer> {
  const port = await freePort();
  const args = ['dist/cli/main.js', 'serve', model, '--host', '127.0.0.1', '--port', String(port)];
  const child = spawn(process.execPath, args, { stdio: 'ignore' });
  return { child, url: `http://127.0.0.1:${port}` };
}

async function compareTexts(url: string, { cases }: GoldenModel): Promise<Figure> {
  const answers = cases.map(async ({ ids, greedyIds }) => {
    const max_tokens = greedyIds.length;
    const body = { prompt: ids, max_tokens, temperature: 0, ignore_eos: true, return_token_ids: true };
    const { choices } = tokenAnswer.parse(await (await post(url, body)).json());
    return choices[0]?.token_ids.join() === greedyIds.join();
  });
  return {
    name: 'greedy texts over HTTP equal to the golden file',
    value: (await Promise.all(answers)).filter(Boolean).length,
    unit: 'texts',
    limit: cases.length,
    goal: 'all',
  };
}

/** CPU time of the server's threads with many streams open, beside that of a server that only writes. */
async function measureCpu({ child, url }: BenchServer): Promise<Figure[]> {
  const floor = await spawnServer('bench/stream-floor-process.ts', [NUM_CPU_STREAMS, CPU_TOKENS]);
  try {
    // The first round warms both up.
    const rounds: { ours: ThreadCpu; floor: ThreadCpu }[] = [];
    for (let round = 0; round <= CPU_ROUNDS; round += 1) {
      const ours = await cpuOf(child, () =>
        streamEach((prompt, seed) => stream(url, prompt, seed, CPU_TOKENS)),
      );
      // The model computes as before: what a write costs depends on what else uses the cores.
      const written = cpuOf(floor.child, () => streamEach(async () => (await fetch(floor.url)).text()));
      const computed = streamEach(async (prompt, seed) =>
        (await post(url, bodyOf(prompt, seed, CPU_TOKENS))).text(),
      );
      rounds.push({ ours, floor: await written });
      await computed;
    }
    const ratio = (round: { ours: ThreadCpu; floor: ThreadCpu }): number =>
      round.ours.main / round.floor.main;
    const typical = rounds.slice(1).toSorted((a, b) => ratio(a) - ratio(b))[Math.floor(CPU_ROUNDS / 2)]!;
    return cpuFigures(typical.ours, typical.floor);
  } finally {
    floor.child.kill('SIGKILL');
  }
}

function cpuFigures(ours: ThreadCpu, floor: ThreadCpu): Figure[] {
  const name = `${NUM_CPU_STREAMS} streams at once`;
  const perToken = (seconds: number): number => (1e6 * seconds) / (NUM_CPU_STREAMS * CPU_TOKENS);
  const figure = (thread: string, seconds: number, goal: string | null = null): Figure =>
    figureOf(`${name}: CPU of the ${thread}`, perToken(seconds), 'us/token', goal);
  return [
    { ...figure('main thread', ours.main, '< 10'), limit: perToken(floor.main) },
    figure('engine thread', ours.engine),
    figure("runtime's helpers", ours.helpers),
    figure('kernel threads', ours.kernels),
  ];
}

async function cpuOf({ pid }: ChildProcess, work: () => Promise<unknown>): Promise<ThreadCpu> {
  const before = threadTimes(pid!);
  await work();
  return cpuSince(before, pid!);
}

function streamEach<T>(begin: (prompt: string, seed: number) => Promise<T>): Promise<T[]> {
  return Promise.all(
    Array.from({ length: NUM_CPU_STREAMS }, (_, seed) => begin(PROMPTS[seed % PROMPTS.length]!, seed)),
  );
}

/** Asks for one token until it comes. */
async function waitForFirstByte(url: string, startedAt: number): Promise<number> {
  while (performance.now() - startedAt < START_DEADLINE_MS) {
    const response = await post(url, { prompt: 'Once', max_tokens: 1 }).catch(() => null);
    if (response?.ok) {
      await response.arrayBuffer();
      return performance.now() - startedAt;
    }
    await response?.arrayBuffer();
    await sleep(10);
  }
  throw new Error(`the server did not answer within ${START_DEADLINE_MS / 1000} s`);
}

async function stream(
  url: string,
  prompt: string,
  seed: number,
  max_tokens = MAX_TOKENS,
): Promise<StreamResult> {
  const startedAt = performance.now();
  const response = await post(url, { ...bodyOf(prompt, seed, max_tokens), stream: true });
  if (!response.ok || response.body === null)
    throw new Error(`status ${response.status}: ${await response.text()}`);
  let received = '';
  let firstTokenMs = 0;
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    firstTokenMs ||= performance.now() - startedAt;
    received += chunk;
  }
  const events = received.split('\n\n').filter((event) => event.startsWith('data: {'));
  const texts = events.map((event) => JSON.parse(event.slice('data: '.length)).choices[0]?.text ?? '');
  return { text: texts.join(''), firstTokenMs, numTokens: max_tokens };
}

function bodyOf(prompt: string, seed: number, max_tokens: number): object {
  return { prompt, max_tokens, seed, temperature: 0.8, ignore_eos: true };
}

function post(url: string, body: object): Promise<Response> {
  return fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}
