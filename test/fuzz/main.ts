// npm run fuzz: damages models and loads them, 100,000 times or as often as a minute lets it.

import { parseArgs } from 'node:util';
import { fuzzLoaders } from './loaders.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    start: { type: 'string', default: '0' },
    runs: { type: 'string', default: '100000' },
    seconds: { type: 'string', default: '60' },
  },
});
const seed = Number(values.seed);
const result = fuzzLoaders({
  seed,
  start: Number(values.start),
  runs: Number(values.runs),
  seconds: Number(values.seconds),
});
for (const { target, run, problem } of result.faults) {
  console.error(`${target}, --seed ${seed} --start ${run} --runs 1:\n${problem.slice(0, 1500)}\n`);
}
const { runs, refused, faults } = result;
console.log(
  `seed ${seed}: ${runs} mutations, ${refused} refused, ${runs - refused - faults.length} taken, ${faults.length} faults`,
);
process.exitCode = faults.length === 0 ? 0 : 1;
