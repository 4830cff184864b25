import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { rankThreads } from '../../src/ops/rank-threads.ts';

const TWO_NODES = {
  cpus: [0, 1, 2, 3, 4, 5, 6, 7],
  nodes: [
    [0, 1, 2, 3],
    [4, 5, 6, 7],
  ],
  granted: 8,
};
const ONE_NODE = { cpus: [0, 1, 2, 3], nodes: [[0, 1, 2, 3]], granted: 4 };
const DEFAULTS = { numThreads: null, cpuBind: null };

const cpusOf = (...[options, ranks, machine]: Parameters<typeof rankThreads>) =>
  rankThreads(options, ranks, machine).map(({ cpus }) => cpus);

describe('rankThreads', () => {
  it('leaves one rank with all cores where the operating system puts it', () => {
    expect(rankThreads(DEFAULTS, 1, TWO_NODES)).toEqual([{ count: 8, cpus: null }]);
  });

  it('shares the cores of one node evenly, and binds none of them unless it is asked to', () => {
    expect(rankThreads(DEFAULTS, 2, ONE_NODE)).toEqual([
      { count: 2, cpus: null },
      { count: 2, cpus: null },
    ]);
    expect(cpusOf({ ...DEFAULTS, cpuBind: 'auto' }, 2, ONE_NODE)).toEqual([
      [0, 1],
      [2, 3],
    ]);
  });

  it('gives each rank its node', () => {
    expect(rankThreads(DEFAULTS, 2, TWO_NODES)).toEqual([
      { count: 4, cpus: [0, 1, 2, 3] },
      { count: 4, cpus: [4, 5, 6, 7] },
    ]);
    expect(cpusOf({ ...DEFAULTS, cpuBind: 'nobind' }, 2, TWO_NODES)).toEqual([null, null]);
  });

  it('lets ranks share a node, or have several', () => {
    expect(cpusOf(DEFAULTS, 4, TWO_NODES)).toEqual([
      [0, 1],
      [2, 3],
      [4, 5],
      [6, 7],
    ]);
    const four = { cpus: TWO_NODES.cpus, nodes: [[0], [2], [4], [6]], granted: 4 };
    expect(cpusOf(DEFAULTS, 2, four)).toEqual([
      [0, 2],
      [4, 6],
    ]);
  });

  it('computes with equally many threads in each rank: the slowest one decides', () => {
    const uneven = { cpus: [0, 1, 2, 3, 4], nodes: [[0, 1, 2], [3]], granted: 4 };
    expect(rankThreads(DEFAULTS, 2, uneven)).toEqual([
      { count: 1, cpus: [0] },
      { count: 1, cpus: [3] },
    ]);
  });

  it('shares --num-threads and a quota of processors among the ranks', () => {
    expect(rankThreads({ ...DEFAULTS, numThreads: 4 }, 2, TWO_NODES)).toEqual([
      { count: 2, cpus: [0, 1] },
      { count: 2, cpus: [4, 5] },
    ]);
    expect(rankThreads(DEFAULTS, 2, { ...TWO_NODES, granted: 3 })).toMatchObject([
      { count: 1 },
      { count: 1 },
    ]);
  });

  it('lets ranks share cores where --num-threads asks for it', () => {
    const two = { cpus: [0, 1], nodes: [[0, 1]], granted: 2 };
    expect(rankThreads({ numThreads: 4, cpuBind: 'auto' }, 4, two)).toEqual([
      { count: 1, cpus: [0] },
      { count: 1, cpus: [1] },
      { count: 1, cpus: [0] },
      { count: 1, cpus: [1] },
    ]);
  });

  it('takes a thread for each processor of a list', () => {
    const lists = [[0, 1, 2], [7]];
    expect(rankThreads({ ...DEFAULTS, cpuBind: lists }, 2, TWO_NODES)).toEqual([
      { count: 3, cpus: [0, 1, 2] },
      { count: 1, cpus: [7] },
    ]);
  });

  it.each([
    [
      DEFAULTS,
      8,
      ONE_NODE,
      /^8 ranks or stages \(--tensor-parallel-size times .*\) are more than the 4 cores .* at most 4, .*--num-threads 8/,
    ],
    [
      { ...DEFAULTS, numThreads: 3 },
      4,
      ONE_NODE,
      /--num-threads 3 has no thread for each of 4 ranks or stages: use at least 4/,
    ],
    [{ ...DEFAULTS, cpuBind: [[0, 1]] }, 2, ONE_NODE, /--cpu-bind 0-1 has 1 lists for 2 ranks or stages/],
    [{ ...DEFAULTS, cpuBind: [[0, 1], [1]] }, 2, ONE_NODE, /--cpu-bind 0-1\|1 names processor 1 twice/],
    [{ ...DEFAULTS, cpuBind: [[0], [9]] }, 2, ONE_NODE, /names processor 9, and svc may use 0-3 here/],
    [{ numThreads: 3, cpuBind: [[0], [1]] }, 2, ONE_NODE, /names 2 processors .* --num-threads asks for 3/],
  ] as const)('refuses %j for %i ranks, with the fix', (options, ranks, machine, message) => {
    expect(() => rankThreads(options, ranks, machine)).toThrow(ConfigError);
    expect(() => rankThreads(options, ranks, machine)).toThrow(message);
  });
});
