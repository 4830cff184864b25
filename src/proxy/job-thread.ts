// Entry of the thread that reads large requests.

import { ownMemory, serveCalls } from '../util/call-thread.ts';
import { type Job, readJob } from './job.ts';
import type { JobPath } from './prompt.ts';

export interface LargeRequest {
  readonly path: JobPath;
  readonly bytes: Uint8Array;
}

/** A job as it passes between threads. */
export type ReadRequest = Omit<Job, 'bytes'> & { readonly bytes: Uint8Array };

serveCalls(({ path, bytes }: LargeRequest) => {
  const job = readJob(path, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  const { count, numTokens, pieces } = job.prompt;
  const value: ReadRequest = { ...job, prompt: { count, numTokens, pieces } };
  return { value, transferList: ownMemory(job.bytes) };
});
