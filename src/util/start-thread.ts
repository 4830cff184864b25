// Starts a module of ours as a thread: the same from sources and from compiled output.

import { type Transferable, Worker } from 'node:worker_threads';

interface ThreadOptions {
  /** Shown by tools of the operating system. */
  readonly name: string;
  /** What the module finds in `workerData.data`. */
  readonly data?: unknown;
  readonly transferList?: Transferable[];
  /** Memory for what lives long in it; it is ended where it needs more. */
  readonly memoryMb?: number | undefined;
}

/** `module` is the URL of the module without its ending. */
export function startThread(module: URL, options: ThreadOptions): Worker {
  const { name, data, transferList = [], memoryMb } = options;
  return new Worker(new URL('./thread-boot.mjs', import.meta.url), {
    name,
    workerData: { module: module.href, data },
    transferList,
    execArgv: [],
    ...(memoryMb !== undefined && { resourceLimits: { maxOldGenerationSizeMb: memoryMb } }),
  });
}
