// Reads requests where that disturbs nobody: small ones at once, larger ones in a thread. proxy-server.ts owns it.

import { MalformedRequestError } from '../errors.ts';
import { CallThread, ownMemory } from '../util/call-thread.ts';
import { type Job, readJob } from './job.ts';
import type { LargeRequest, ReadRequest } from './job-thread.ts';
import type { JobPath } from './prompt.ts';

/** Bytes that are read in about a millisecond. */
const MAX_AT_ONCE = 64 * 1024;
/** For what takes a fraction of a second on a machine that is not busy. */
const DEADLINE_MS = 30_000;
const MAX_WAITING = 64;

export class JobReader {
  readonly #thread = new CallThread<LargeRequest, ReadRequest>(new URL('./job-thread', import.meta.url), {
    name: 'svc-job',
    deadlineMs: DEADLINE_MS,
    maxWaiting: MAX_WAITING,
  });

  /**
   * Large `bytes` are gone afterwards: the job has them.
   * @throws MalformedRequestError where they are no JSON object.
   */
  async read(path: JobPath, bytes: unknown): Promise<Job> {
    if (!Buffer.isBuffer(bytes)) throw new MalformedRequestError('The body must be a JSON object');
    if (bytes.length <= MAX_AT_ONCE) return readJob(path, bytes);
    const job = await this.#thread.call({ path, bytes }, ownMemory(bytes));
    return { ...job, bytes: Buffer.from(job.bytes.buffer, job.bytes.byteOffset, job.bytes.byteLength) };
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
