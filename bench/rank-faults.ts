// A rank that ends at each step of the transfer protocol, in every mode and over every transport, between real servers of unequal degree.
// GPUs are emulated.

import type { SendType, TransportChoice } from '../src/config/kv-transfer-config.ts';
import { STEPS } from '../test/disagg/fault-rig.ts';
import { answersOf, type MixedRequest, mixedRequests } from '../test/disagg/mixed-requests.ts';
import { ServerFaultRig, type ServerOutcome } from '../test/disagg/server-fault-rig.ts';
import { buildEmulators, NCCL_EMULATOR } from '../test/helpers/emulator-files.ts';
import { startServeProcess } from '../test/helpers/svc-process.ts';
import { rankArgs, withRankModel } from './rank-model.ts';
import { type Figure, figureOf, type Section } from './report.ts';

const SEND_TYPES = ['PUT_ASYNC', 'PUT', 'GET'] as const;
const SIDES = ['P', 'D'] as const;
/** Of P and D. */
const DEGREES = { P: 2, D: 4 } as const;
const NUM_REQUESTS = 8;
/** What passes no socket has none of them. */
const OF_SOCKETS = ['link', 'data'];

/** What computes, and over what its blocks can go. */
interface Place {
  readonly transports: readonly TransportChoice[];
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly maxTokens: number;
}

interface Table {
  readonly sendType: SendType;
  readonly transport: TransportChoice;
  readonly rows: readonly Row[];
}

interface Row {
  readonly side: (typeof SIDES)[number];
  readonly step: string;
  readonly outcome: ServerOutcome;
}

const PROCESSORS: Place = { transports: ['tcp', 'shm'], args: ['--device', 'cpu'], env: {}, maxTokens: 24 };
const GPUS: Place = {
  transports: ['cuda-ipc', 'nccl'],
  args: ['--device', 'cuda', '--dtype', 'bfloat16', '--kv-cache-memory-bytes', '8e6'],
  env: { ...NCCL_EMULATOR, SVC_EMULATED_GPUS: String(DEGREES.D) },
  // An emulated GPU is slow.
  maxTokens: 4,
};

export function rankFaultSection(): Promise<Section> {
  return withRankModel(async (model) => {
    const obstacle = buildEmulators();
    if (obstacle !== null) console.error(`no GPUs are emulated: ${obstacle}`);
    const tables: Table[] = [];
    for (const place of obstacle === null ? [PROCESSORS, GPUS] : [PROCESSORS]) {
      tables.push(...(await tablesOf(model, place)));
    }
    return describe(tables);
  });
}

async function tablesOf(model: string, place: Place): Promise<Table[]> {
  const { transports, args, env, maxTokens } = place;
  const requests = mixedRequests(NUM_REQUESTS, 7).map((request) => limit(request, maxTokens));
  const plain = await startServeProcess([model, ...args], env);
  const expected = await answersOf(plain.url, requests, NUM_REQUESTS).finally(() => plain.stop());
  const tables: Table[] = [];
  for (const transport of transports) {
    for (const sendType of SEND_TYPES) {
      const rig = await ServerFaultRig.start({
        model,
        requests,
        expected,
        sendType,
        transport,
        env,
        serveArgs: [...args, '--max-num-batched-tokens', '64'],
        producerArgs: rankArgs(DEGREES.P),
        consumerArgs: rankArgs(DEGREES.D),
      });
      const rows = await endRanks(rig, stepsOf(sendType, transport)).finally(() => rig.close());
      tables.push({ sendType, transport, rows });
    }
  }
  return tables;
}

async function endRanks(rig: ServerFaultRig, steps: readonly string[]): Promise<Row[]> {
  const rows: Row[] = [];
  for (const side of SIDES) {
    for (const step of steps) {
      const outcome = await rig.run({ fault: 'end of rank 1', side, step });
      console.error(side, step, brief(outcome));
      rows.push({ side, step, outcome });
    }
  }
  return rows;
}

function stepsOf(sendType: SendType, transport: TransportChoice): string[] {
  return STEPS[sendType].filter((step) => transport === 'tcp' || !OF_SOCKETS.includes(step));
}

function limit({ path, body }: MixedRequest, maxTokens: number): MixedRequest {
  const field = path === '/v1/responses' ? 'max_output_tokens' : 'max_tokens';
  return { path, body: { ...body, [field]: Math.min(Number(body[field]), maxTokens) } };
}

function describe(tables: readonly Table[]): Section {
  const outcomes = tables.flatMap(({ rows }) => rows.map(({ outcome }) => outcome));
  const summed = (name: string, what: (outcome: ServerOutcome) => number, goal: string | null): Figure =>
    figureOf(
      name,
      outcomes.map(what).reduce((sum, one) => sum + one, 0),
      '',
      goal,
    );
  return {
    title: `A rank that ends, 1 P of ${DEGREES.P} ranks and 2 D of ${DEGREES.D}, tiny model`,
    figures: [
      figureOf('scenarios', outcomes.length, ''),
      summed('steps that did not come', ({ hasHappened }) => Number(!hasHappened), '0'),
      summed('requests', ({ requests }) => requests, null),
      summed('wrong or missing answers', ({ wrong }) => wrong.length, '0'),
      summed('servers that ended without naming the rank', (one) => Number(!namesRank(one)), '0'),
      figureOf(
        'groups whose blocks went another way',
        tables.filter((one) => !isAsNamed(one)).length,
        '',
        '0',
      ),
    ],
    notes: [
      ...tables.map(format),
      'Right answers of all, and seconds until those that live hold nothing; a dash where the step did not come.',
    ],
  };
}

function isAsNamed({ transport, rows }: Table): boolean {
  const used = rows.flatMap(({ outcome }) => outcome.transports);
  return used.length > 0 && used.every((one) => one === transport);
}

function namesRank({ hasHappened, exitCode, said }: ServerOutcome): boolean {
  return !hasHappened || (exitCode === 1 && /the engine has died: .*rank 1/.test(said));
}

function format({ sendType, transport, rows }: Table): string {
  const steps = [...new Set(rows.map(({ step }) => step))];
  const cell = (side: string, step: string): string => {
    const outcome = rows.find((row) => row.side === side && row.step === step)?.outcome;
    return outcome?.hasHappened ? brief(outcome) : '-';
  };
  return [
    `| ${sendType} over ${transport} | ${steps.join(' | ')} |`,
    `|---|${steps.map(() => '---:|').join('')}`,
    ...SIDES.map((side) => `| rank 1 of ${side} | ${steps.map((step) => cell(side, step)).join(' | ')} |`),
  ].join('\n');
}

function brief({ requests, wrong, freeMs }: ServerOutcome): string {
  return `${requests - wrong.length}/${requests} in ${(freeMs / 1000).toFixed(1)}`;
}
