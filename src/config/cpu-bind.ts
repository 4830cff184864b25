// On which processors the threads of each rank compute: what --cpu-bind says, before the machine is asked.

import * as z from 'zod';
import { cpuList } from '../util/cpu-list.ts';
import type { Kind } from './option-kinds.ts';

/**
 * `auto` shares the cores of the machine among ranks, node by node; `nobind` leaves threads to the operating system; else the
 * processors of each rank.
 */
export type CpuBind = 'auto' | 'nobind' | readonly (readonly number[])[];

const Lists = z.array(z.array(z.int().min(0)).min(1)).min(1);

/** `auto`, `nobind` or `0-3|4-7`: one list a rank. */
export function cpuBind(): Kind<CpuBind> {
  const schema = z.union([Lists, z.string()]).transform((given, context): CpuBind => {
    if (given === 'auto' || given === 'nobind') return given;
    const lists = typeof given === 'string' ? given.split('|').map(cpuList) : given;
    if (lists.every((list) => list !== null)) return lists;
    context.addIssue({ code: 'custom', message: 'not a list of processors' });
    return z.NEVER;
  });
  const expected = 'auto, nobind, or a list of processors for each rank such as 0-3|4-7 or 0,2|1,3';
  return { placeholder: '<lists>', expected, takesSeveral: false, schema };
}
