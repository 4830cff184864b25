// The engine thread before it has a model: it reads its modules while the thread that spawns it goes on.

import { MessageChannel, type MessagePort, type Worker } from 'node:worker_threads';
import { startThread } from '../util/start-thread.ts';
import type { EngineThreadData } from './messages.ts';
import { Pulse } from './pulse.ts';

export interface EngineThread {
  readonly worker: Worker;
  readonly port: MessagePort;
  /** Of the thread, from when it is ready. */
  readonly pulse: Pulse;
  /** Resolves when the thread has ended, with the reason: heard of however early that is. */
  readonly ended: Promise<Error>;
}

/** It waits for its configuration, a message to the worker, and does not keep the process alive. */
export function spawnEngineThread(): EngineThread {
  const { port1, port2 } = new MessageChannel();
  const pulse = new Pulse();
  const worker = startThread(new URL('./engine-thread', import.meta.url), {
    name: 'svc-engine',
    data: { port: port2, pulse: pulse.memory } satisfies EngineThreadData,
    transferList: [port2],
  });
  worker.unref();
  return { worker, port: port1, pulse, ended: endOf(worker) };
}

function endOf(worker: Worker): Promise<Error> {
  return new Promise((resolve) => {
    let reason = new Error('its thread has ended');
    worker.once('error', (error) => {
      reason = error;
    });
    worker.once('exit', () => resolve(reason));
  });
}
