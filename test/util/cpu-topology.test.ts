import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cpuList, showCpus } from '../../src/util/cpu-list.ts';
import { readTopology } from '../../src/util/cpu-topology.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

interface Machine {
  /** Cpus_allowed_list of the process. */
  readonly allowed: string;
  /** [nodes] cpulist; null is a kernel without NUMA. */
  readonly nodes: readonly string[] | null;
  /** Threads of each core. */
  readonly siblings?: readonly string[];
}

const newFolder = temporaryFolders();

/** The files of a machine that Linux would show. */
function machine({ allowed, nodes, siblings = [] }: Machine): string {
  const root = newFolder();
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), `${text}\n`);
  };
  write('proc/self/status', `Name:\tnode\nCpus_allowed:\tff\nCpus_allowed_list:\t${allowed}`);
  for (const [node, cpus] of (nodes ?? []).entries())
    write(`sys/devices/system/node/node${node}/cpulist`, cpus);
  if (nodes !== null) write('sys/devices/system/node/online', `0-${nodes.length - 1}`);
  for (const list of siblings) {
    for (const cpu of cpuList(list)!)
      write(`sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`, list);
  }
  return root;
}

describe('readTopology', () => {
  it('gives the cores of each node, one processor a core', () => {
    const root = machine({
      allowed: '0-7',
      nodes: ['0-1,4-5', '2-3,6-7'],
      siblings: ['0,4', '1,5', '2,6', '3,7'],
    });
    expect(readTopology(root)).toEqual({
      cpus: [0, 1, 2, 3, 4, 5, 6, 7],
      nodes: [
        [0, 1],
        [2, 3],
      ],
    });
  });

  it('counts what the process may run on alone: the other thread of a core, and no node without processors', () => {
    const root = machine({
      allowed: '2-5,7',
      nodes: ['0-1,4-5', '2-3,6-7', ''],
      siblings: ['0,4', '1,5', '2,6', '3,7'],
    });
    expect(readTopology(root).nodes).toEqual([
      [4, 5],
      [2, 3],
    ]);
  });

  it('orders nodes by their numbers', () => {
    const nodes = Array.from({ length: 11 }, (_, node) => `${node}`);
    expect(readTopology(machine({ allowed: '0-10', nodes })).nodes.flat()).toEqual(
      nodes.map((node) => Number(node)),
    );
  });

  it('is one node where the kernel shows none', () => {
    expect(readTopology(machine({ allowed: '0-2', nodes: null }))).toEqual({
      cpus: [0, 1, 2],
      nodes: [[0, 1, 2]],
    });
  });

  it('reads this machine', () => {
    const { cpus, nodes } = readTopology();
    expect(nodes.flat().length).toBeGreaterThan(0);
    expect(cpus).toEqual(expect.arrayContaining(nodes.flat()));
  });
});

describe('lists of processors', () => {
  it.each([
    ['0-3,8', [0, 1, 2, 3, 8]],
    [' 5 ', [5]],
    ['3-3', [3]],
    ['', null],
    ['3-1', null],
    ['0,', null],
    ['-1', null],
    ['a', null],
    ['0-999999', null],
  ])('%j is %j', (text, cpus) => expect(cpuList(text)).toEqual(cpus));

  it('are shown as short as they can be written', () => {
    expect(showCpus([0, 1, 2, 8, 10, 11])).toBe('0-2,8,10-11');
  });
});
