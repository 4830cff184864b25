// scripts/gpu-check: runs the parts one after the other, prints a table, and writes the same as JSON. Exits 1 where a check failed;
// a figure below its goal is no failure.

import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { formatNumber } from '../report.ts';
import { CALLS, isPartName, PART_NAMES, PARTS, type PartName } from './parts.ts';
import { failed, type Result } from './result.ts';
import { type PartRun, runPart } from './run-part.ts';

const USAGE = `usage: scripts/gpu-check [PART ...] [--output FOLDER] [--seconds N] [--most-rows N] [--model FOLDER]
       scripts/gpu-check pack [sm_90a]  puts all that a machine without Node needs into .gpu-check/
parts, all unless some are named, which are run in the order given:
${PART_NAMES.map((name) => `  ${name.padEnd(12)} ${PARTS[name].title}, at most ${PARTS[name].seconds} s`).join('\n')}
A command of ten minutes at most is enough for half of them:
${CALLS.map((names) => `  scripts/gpu-check ${names.join(' ')}`).join('\n')}
options:
  --output     where gpu-check.json and gpu-check.txt go; else $OUT, else build/
  --seconds    for all parts of the command together (570)
  --most-rows  rows up to which products and attention are compared (2048)
  --model      a folder with a config.json whose shape is timed, in place of Llama-3.1-8B and Qwen3-0.6B
SVC_CUDA_DRIVER and SVC_CUDA_KERNELS name another driver and other kernels, as for svc serve.`;

interface Options {
  readonly names: readonly PartName[];
  readonly folder: string;
  readonly seconds: number;
  readonly passedOn: Readonly<Record<'most-rows' | 'model', string | undefined>>;
}

type Section = PartRun & { readonly part: PartName; readonly title: string };

async function main(): Promise<void> {
  const options = readOptions();
  const endAt = performance.now() + options.seconds * 1000;
  const sections: Section[] = [];
  mkdirSync(options.folder, { recursive: true });
  for (const name of options.names) {
    const { title } = PARTS[name];
    const run = await within(name, options, (endAt - performance.now()) / 1000);
    const section = { part: name, title, ...run };
    console.log(format(section));
    sections.push(section);
    writeWhole(join(options.folder, 'gpu-check.json'), `${JSON.stringify(sections, null, 2)}\n`);
    writeWhole(join(options.folder, 'gpu-check.txt'), `${sections.map(format).join('\n')}\n`);
  }
  const all = sections.flatMap(({ results }) => results);
  const count = (outcome: Result['outcome']) => all.filter((result) => result.outcome === outcome).length;
  console.log(
    `${count('passed')} passed, ${count('failed')} failed, ${count('measured')} measured, ${count('missing')} missing`,
  );
  process.exitCode = count('failed') > 0 ? 1 : 0;
}

/** Whatever ends this process, the parts that are done count. */
function writeWhole(path: string, text: string): void {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

async function within(name: PartName, { passedOn }: Options, secondsLeft: number): Promise<PartRun> {
  const { seconds, program, options } = PARTS[name];
  const limit = Math.min(seconds, secondsLeft);
  if (limit < 1) {
    return { results: [failed('its time', 'the parts before it took all')], seconds: 0, messages: '' };
  }
  const args = options.flatMap((option) => {
    const value = passedOn[option];
    return value === undefined ? [] : [`--${option}`, value];
  });
  return runPart(program, args, limit);
}

function format({ part, title, results, seconds }: Section): string {
  const rows = results.map(({ name, outcome, value, unit, goal, note }) => {
    const figure = value === null ? outcome : `${formatNumber(value)} ${unit}`;
    const held =
      value === null || goal === null
        ? ''
        : ` (goal ${formatNumber(goal)}: ${value >= goal ? 'reached' : 'missed'})`;
    return `  ${name.padEnd(58)} ${figure}${held}${note === '' ? '' : `  ${note.replaceAll('\n', '\n      ')}`}`;
  });
  return [`${part}: ${title} [${seconds.toFixed(1)} s]`, ...rows, ''].join('\n');
}

function readOptions(): Options {
  const { values, positionals } = parse();
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const unknown = positionals.filter((name) => !isPartName(name));
  if (unknown.length > 0) refuse(`no part is called ${unknown.join(', ')}`);
  const names = positionals.length === 0 ? PART_NAMES : positionals.filter(isPartName);
  wholeNumber('--most-rows', values['most-rows']);
  return {
    names,
    folder: values.output ?? process.env.OUT ?? 'build',
    seconds: wholeNumber('--seconds', values.seconds),
    passedOn: { 'most-rows': values['most-rows'], model: values.model },
  };
}

function parse() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        output: { type: 'string' },
        seconds: { type: 'string', default: '570' },
        'most-rows': { type: 'string', default: '2048' },
        model: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error));
  }
}

function wholeNumber(option: string, text: string): number {
  const value = Number(text);
  return Number.isInteger(value) && value > 0
    ? value
    : refuse(`${option} must be a whole number above 0, got ${text}`);
}

function refuse(reason: string): never {
  console.error(`gpu-check: ${reason}\n${USAGE}`);
  process.exit(2);
}

await main();
