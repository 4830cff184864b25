// The processors that this process may compute on, core by core and node by node, as Linux shows them in /sys.

import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { cpuList } from './cpu-list.ts';

export interface CpuTopology {
  /** Those that this process may run on, ascending. */
  readonly cpus: readonly number[];
  /** [nodes][cores] The first of those of each core, ascending; nodes without any are left out. */
  readonly nodes: readonly (readonly number[])[];
}

/** @param root where /sys and /proc are: a folder with files of another machine, in tests */
export function readTopology(root = '/'): CpuTopology {
  const read = (path: string): string | null => readText(join(root, path));
  const status = read('proc/self/status') ?? '';
  const allowed = cpuList(/^Cpus_allowed_list:\s*(.+)$/m.exec(status)?.[1] ?? '') ?? everyCpu();
  const isFirstOfCore = (cpu: number): boolean => {
    const path = `sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`;
    const siblings = cpuList(read(path) ?? '') ?? [cpu];
    return siblings.find((sibling) => allowed.includes(sibling)) === cpu;
  };
  const cores = allowed.filter(isFirstOfCore);
  const nodes = nodesOf(root)
    .map((name) => cpuList(read(`sys/devices/system/node/${name}/cpulist`) ?? '') ?? [])
    .map((cpus) => cores.filter((core) => cpus.includes(core)))
    .filter((node) => node.length > 0);
  return { cpus: allowed, nodes: nodes.length === 0 ? [cores] : nodes };
}

function everyCpu(): number[] {
  return Array.from({ length: availableParallelism() }, (_, cpu) => cpu);
}

function nodesOf(root: string): string[] {
  const number = (name: string): number => Number(name.slice('node'.length));
  try {
    const names = readdirSync(join(root, 'sys/devices/system/node'));
    return names.filter((name) => /^node\d+$/.test(name)).sort((a, b) => number(a) - number(b));
  } catch {
    // Kernels without NUMA have no such folder.
    return [];
  }
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
