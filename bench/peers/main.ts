// npm run bench:peers [-- --scheme bf16|int8|int4|Q4_K_M] [--only scenario] [--save]: svc beside node-llama-cpp, which many programs of Node serve
// models with, on the same random weights, each as a server of its own that the same client asks. They take turns, scenario by
// scenario, so that a shared machine is as slow for one as for the other.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { saveResults } from '../results.ts';
import { installPeer } from './install.ts';
import { expectSameArithmetic } from './same-arithmetic.ts';
import { MANY, ONE, SCENARIOS, type Scenario } from './scenarios.ts';
import { SCHEMES, type Scheme } from './schemes.ts';
import { type BenchServer, type Seats, startPeer, startSvc, THREADS } from './servers.ts';
import { type ComparedMetric, formatComparison } from './table.ts';

const START_ROUNDS = 3;
const READY = 'ready';
const SCENARIO_NAMES: readonly string[] = [READY, ...SCENARIOS.map(({ name }) => name)];

/** What the peer's server says of itself. */
const peerInfo = z.object({ release: z.string(), settings: z.string() });

const { values: flags } = parseArgs({
  options: {
    scheme: { type: 'string', multiple: true, default: SCHEMES.map(({ name }) => name) },
    only: { type: 'string', multiple: true, default: [...SCENARIO_NAMES] },
    save: { type: 'boolean', default: false },
  },
});
refuseUnknown(
  '--scheme',
  flags.scheme,
  SCHEMES.map(({ name }) => name),
);
refuseUnknown('--only', flags.only, SCENARIO_NAMES);
if (flags.save && flags.only.length < SCENARIO_NAMES.length) {
  refuse('--save keeps whole tables: leave out --only');
}

try {
  installPeer();
} catch (error) {
  refuse(error instanceof Error ? error.message : String(error));
}
const folder = mkdtempSync(join(os.tmpdir(), 'svc-peers-'));
try {
  const sameness = await expectSameArithmetic(folder);
  console.log(`${sameness}\n`);
  for (const scheme of SCHEMES.filter(({ name }) => flags.scheme.includes(name))) {
    const text = await compare(scheme, join(folder, scheme.name), sameness);
    rmSync(join(folder, scheme.name), { recursive: true });
    console.log(text);
    if (flags.save) saveResults([{ command: `npm run bench:peers -- --scheme ${scheme.name}`, text }]);
  }
} finally {
  rmSync(folder, { recursive: true });
}

interface Pair {
  readonly svc: BenchServer;
  readonly peer: BenchServer;
}

type Starters = { readonly [Side in keyof Pair]: (seats: Seats) => Promise<BenchServer> };

async function compare(scheme: Scheme, folder: string, sameness: string): Promise<string> {
  console.error(`writing random weights in the shape of ${scheme.shape}`);
  const { svc, peer } = scheme.write(folder);
  const { vocabSize } = readModelConfig(openModelSource(folder));
  const start: Starters = {
    svc: (seats) => startSvc(svc, seats, scheme.options),
    peer: (seats) => startPeer(peer, seats),
  };
  const metrics: ComparedMetric[] = [];
  const settings = new Set<string>();
  if (flags.only.includes(READY)) metrics.push(await compareStarts(start));
  for (const seats of [ONE, MANY]) {
    const scenarios = SCENARIOS.filter(
      ({ name, seats: needed, schemes }) =>
        needed === seats && flags.only.includes(name) && schemes?.includes(scheme.name) !== false,
    );
    if (scenarios.length === 0) continue;
    const pair = { svc: await start.svc(seats), peer: await start.peer(seats) };
    try {
      settings.add(await describePeer(pair.peer));
      for (const scenario of scenarios) metrics.push(...(await alternate(scenario, vocabSize, pair)));
      metrics.push(memoryOf(pair, seats));
    } finally {
      await Promise.all([pair.svc.stop(), pair.peer.stop()]);
    }
  }
  return formatComparison(scheme, metrics, [
    `Best and, in brackets, median of the rounds; ${scheme.shape} with random weights, ${THREADS} threads each. ${[...settings].join(' ')}`,
    sameness,
  ]);
}

/** Each is alone while it starts. */
async function compareStarts(start: Starters): Promise<ComparedMetric> {
  const [svc, peer]: [number[], number[]] = [[], []];
  const measure = async (seconds: number[], starting: Promise<BenchServer>): Promise<void> => {
    const server = await starting;
    seconds.push(server.readySeconds);
    await server.stop();
  };
  for (let round = 0; round < START_ROUNDS; round++) {
    console.error(`${READY}: round ${round + 1} of ${START_ROUNDS}`);
    await measure(svc, start.svc(ONE));
    await measure(peer, start.peer(ONE));
  }
  const name = 'ready after, from the start of the process to a first token';
  return { name, unit: 's', isMoreBetter: false, svc, peer };
}

/** The values of all rounds, in which svc and the peer take turns. */
async function alternate(
  scenario: Scenario,
  vocabSize: number,
  { svc, peer }: Pair,
): Promise<ComparedMetric[]> {
  const ours: number[][] = [];
  const theirs: number[][] = [];
  for (let round = 0; round < scenario.rounds; round++) {
    console.error(`${scenario.name}: round ${round + 1} of ${scenario.rounds}`);
    ours.push(await scenario.run(svc.url, vocabSize, round));
    theirs.push(await scenario.run(peer.url, vocabSize, round));
  }
  return scenario.metrics.map((metric, i) => ({
    ...metric,
    svc: ours.map((values) => values[i]!),
    peer: theirs.map((values) => values[i]!),
  }));
}

function memoryOf({ svc, peer }: Pair, { numSeqs, contextSize }: Seats): ComparedMetric {
  return {
    name: `peak memory, up to ${numSeqs} at once, contexts up to ${contextSize}`,
    unit: 'GB',
    isMoreBetter: false,
    svc: [svc.peakBytes() / 1e9],
    peer: [peer.peakBytes() / 1e9],
  };
}

async function describePeer({ url }: BenchServer): Promise<string> {
  const { release, settings } = peerInfo.parse(await (await fetch(url)).json());
  return `The peer has llama.cpp ${release}, ${settings}.`;
}

function refuseUnknown(flag: string, given: readonly string[], known: readonly string[]): void {
  const unknown = given.filter((name) => !known.includes(name));
  if (unknown.length > 0) refuse(`${flag} ${unknown.join(', ')} is unknown; there are ${known.join(', ')}`);
}

function refuse(message: string): never {
  console.error(message);
  process.exit(2);
}
