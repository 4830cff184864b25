// The only GPU of this machine, shown to a process as several.

import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { inPlaceOfDriver, ncclPath } from './stand-in.ts';

/** NCCL takes ranks on one GPU where they seem to be on hosts of their own, and newer ones where they are told to. */
export const ON_ONE_GPU = {
  NCCL_SOCKET_IFNAME: 'lo',
  NCCL_IB_DISABLE: '1',
  NCCL_MULTI_RANK_GPU_ENABLE: '1',
  // Each copy of NCCL would watch the others.
  NCCL_RAS_ENABLE: '0',
  // Streams that share a queue of the GPU wait for each other.
  CUDA_DEVICE_MAX_CONNECTIONS: '32',
};

const MOST_RANKS = 2;

export interface SeveralGpus {
  /** Of the environment of a process that is to see them. */
  readonly variables: Readonly<Record<string, string>>;
  remove(): void;
}

/**
 * @returns null where the library that shows them is neither there nor can be compiled.
 * @throws Error where there is no NCCL, or the library does not compile.
 */
export function showSeveralGpus(count: number): SeveralGpus | null {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
  const remove = (): void => rmSync(folder, { recursive: true });
  try {
    const inPlace = inPlaceOfDriver('several_gpus', folder);
    if (inPlace === null) {
      remove();
      return null;
    }
    const copies = Array.from({ length: MOST_RANKS }, (_, rank) => join(folder, `nccl-${rank}.so`));
    for (const copy of copies) copyFileSync(ncclPath(), copy);
    const variables = {
      ...inPlace,
      ...ON_ONE_GPU,
      SVC_SHOWN_GPUS: String(count),
      SVC_NCCL_COPIES: copies.join(':'),
      SVC_NCCL: inPlace.SVC_CUDA_DRIVER!,
      // Of two ranks that share a GPU one would wait, to load a kernel, until the other one has met it.
      CUDA_MODULE_LOADING: 'EAGER',
      NCCL_MAX_CTAS: '4',
    };
    return { variables, remove };
  } catch (error) {
    remove();
    throw error;
  }
}
