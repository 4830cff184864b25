// Starts a module of ours as a thread: the same from sources and from compiled output.

import { type Transferable, Worker } from 'node:worker_threads';

export interface ThreadOptions {
  /** Shown by tools of the operating system. */
  readonly name: string;
  /** What the module finds in `workerData.data`. */
  readonly data?: unknown;
  readonly transferList?: Transferable[];
}

/** `module` is the URL of the module without its ending. */
export function startThread(module: URL, { name, data, transferList = [] }: ThreadOptions): Worker {
  return new Worker(new URL('./thread-boot.mjs', import.meta.url), {
    name,
    workerData: { module: module.href, data },
    transferList,
    execArgv: [],
  });
}
