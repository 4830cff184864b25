// Every fault at every step of the transfer protocol, in every mode; many instances with some coming and going; and
// clients that disconnect.

import { modelFolder } from '../src/models/model-folder.ts';
import { runChurn } from '../test/disagg/churn.ts';
import { disconnectClients } from '../test/disagg/client-disconnects.ts';
import { allScenarios, FaultRig, type Outcome, type Scenario, STEPS } from '../test/disagg/fault-rig.ts';
import { Cluster } from '../test/helpers/cluster.ts';
import { figureOf, type Section } from './report.ts';

const NUM_CLIENTS = 500;
const SEND_TYPES = ['PUT_ASYNC', 'PUT', 'GET'] as const;

interface Row {
  readonly scenario: Scenario;
  readonly outcome: Outcome;
}

export async function faultSection(): Promise<Section> {
  const tables: string[] = [];
  const outcomes: Outcome[] = [];
  for (const sendType of SEND_TYPES) {
    const rig = await FaultRig.start({ sendType, transport: 'tcp' });
    try {
      const rows: Row[] = [];
      for (const scenario of allScenarios(sendType)) {
        rows.push({ scenario, outcome: await rig.run(scenario) });
        console.error(sendType, JSON.stringify(rows.at(-1)));
      }
      outcomes.push(...rows.map(({ outcome }) => outcome));
      tables.push(table(sendType, rows));
    } finally {
      await rig.close();
    }
  }
  const sum = (count: (outcome: Outcome) => number): number =>
    outcomes.reduce((all, one) => all + count(one), 0);
  return {
    title: 'Faults in transfers, 2 P and 2 D without a model, tcp',
    figures: [
      figureOf('scenarios', outcomes.length, ''),
      figureOf(
        'requests',
        sum(({ requests }) => requests),
        '',
      ),
      figureOf(
        'wrong answers',
        sum(({ wrong }) => wrong),
        '',
        '0',
      ),
      figureOf(
        'requests that failed',
        sum(({ failures }) => failures.length),
        '',
        '0',
      ),
      figureOf(
        'blocks, areas and transfers left over',
        sum(({ leftOver }) => leftOver),
        '',
        '0',
      ),
    ],
    notes: [
      ...tables,
      'Right answers of all, and the slowest of them in seconds; a dash where the step did not come.',
    ],
  };
}

export async function clientDisconnectSection(): Promise<Section> {
  const model = await modelFolder('');
  const proxyArgs = ['--prefill-threshold', '0'];
  const group = await Cluster.start({ model, producers: 1, consumers: 1, proxyArgs });
  try {
    const ms = await disconnectClients(group, NUM_CLIENTS);
    const name = 'last client disconnected until P and D hold nothing';
    return {
      title: `${NUM_CLIENTS} clients that disconnect within 300 ms, svc-chat, 1 P and 1 D`,
      figures: [figureOf(name, ms, 'ms', '< 1000')],
    };
  } finally {
    await group.stop();
  }
}

export async function churnSection(): Promise<Section> {
  const report = await runChurn({ producers: 96, consumers: 144, processes: 6, seconds: 20, atOnce: 32 });
  return {
    title: 'Churn: 96 P and 144 D without a model, each second two joins, a drain and a crash of a P and a D',
    figures: [
      figureOf('requests', report.requests, ''),
      figureOf('requests that failed', report.failed, '', '0'),
      figureOf('wrong answers', report.wrong, '', '0'),
      figureOf('joins', report.joined, ''),
      figureOf('drains', report.drained, ''),
      figureOf('crashes', report.crashed, ''),
      figureOf('latency, p50', report.p50Ms, 'ms'),
      figureOf('latency, p99', report.p99Ms, 'ms'),
      figureOf('memory a pair', report.bytesPerPair / 1e6, 'MB'),
      figureOf('sockets a pair', report.socketsPerPair, ''),
    ],
  };
}

function table(sendType: (typeof SEND_TYPES)[number], rows: readonly Row[]): string {
  const steps = STEPS[sendType];
  const kinds = [...new Set(rows.map(({ scenario }) => kindOf(scenario)))];
  const cell = (kind: string, step: string): string => {
    const outcome = rows.find(({ scenario }) => kindOf(scenario) === kind && scenario.step === step)?.outcome;
    if (outcome === undefined || !outcome.hasHappened) return '-';
    return `${outcome.right}/${outcome.requests} in ${(outcome.slowestMs / 1000).toFixed(1)}`;
  };
  return [
    `| ${sendType} | ${steps.join(' | ')} |`,
    `|---|${steps.map(() => '---:|').join('')}`,
    ...kinds.map((kind) => `| ${kind} | ${steps.map((step) => cell(kind, step)).join(' | ')} |`),
  ].join('\n');
}

function kindOf({ fault, side }: Scenario): string {
  return fault === 'kill' || fault === 'stop' ? `${fault} ${side}` : fault;
}
