// A thread that reads request bodies too large for the main thread to parse between two events: started at the first one,
// restarted when it fails, one body after the other. Server and proxy have one each; the messages are typed here.

import { parentPort, type Transferable, type Worker } from 'node:worker_threads';
import { InvalidRequestError, MalformedRequestError, OverloadedError, SvcError } from '../errors.ts';
import { startThread } from '../util/start-thread.ts';

/** Bodies that wait for the thread, the one that it reads included. */
const MAX_WAITING = 64;
/** A body is read in a fraction of a second; this is for many of them on a machine that is busy. */
const DEADLINE_MS = 30_000;
const RETRY_AFTER_SECONDS = 1;

interface Order {
  readonly id: number;
  readonly bytes: Uint8Array;
}

type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly fault: Fault };

/** An error as plain data: a structured clone would lose its class. */
interface Fault {
  readonly kind: keyof typeof FAULTS | null;
  readonly message: string;
  readonly param: string | null;
}

/** What may be wrong with a body; all else is a defect of ours. */
const FAULTS = { MalformedRequestError, InvalidRequestError } as const;

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
  readonly deadline: NodeJS.Timeout;
}

export class BodyThread {
  readonly #module: URL;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | null = null;
  #nextId = 0;

  /** @param module URL without its ending; it calls `serveBodies`. */
  constructor(module: URL) {
    this.#module = module;
  }

  /**
   * What the module makes of `bytes`, which are the thread's from now on.
   * @throws OverloadedError where too many bodies wait already, or the thread does not get to this one in time.
   */
  read(bytes: Uint8Array): Promise<unknown> {
    if (this.#waiting.size >= MAX_WAITING) return Promise.reject(overloaded());
    this.#worker ??= this.#start();
    const id = this.#nextId++;
    const order: Order = { id, bytes };
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(() => this.#fail(overloaded()), DEADLINE_MS).unref();
      this.#waiting.set(id, { resolve, reject, deadline });
      this.#worker?.postMessage(order, ownMemory(bytes));
    });
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    this.#fail(new SvcError('the thread that reads bodies has been closed'));
    await worker?.terminate();
  }

  #start(): Worker {
    const worker = startThread(this.#module, { name: 'svc-body' });
    worker.unref();
    worker.on('message', (answer: Answer) => this.#settle(answer));
    worker.on('error', (cause) => {
      if (worker === this.#worker)
        this.#fail(new SvcError('the thread that reads bodies has died', { cause }));
    });
    return worker;
  }

  #settle(answer: Answer): void {
    const waiting = this.#waiting.get(answer.id);
    if (waiting === undefined) return;
    clearTimeout(waiting.deadline);
    this.#waiting.delete(answer.id);
    if ('fault' in answer) waiting.reject(toError(answer.fault));
    else waiting.resolve(answer.value);
  }

  /** Gives the thread up, and with it all that wait for it. */
  #fail(error: Error): void {
    void this.#worker?.terminate();
    this.#worker = null;
    for (const { reject, deadline } of this.#waiting.values()) {
      clearTimeout(deadline);
      reject(error);
    }
    this.#waiting.clear();
  }
}

/** The thread's end: answers every order with what `read` gives, and hands over the memory that it names. */
export function serveBodies(
  read: (bytes: Uint8Array) => { readonly value: unknown; readonly transferList: Transferable[] },
): void {
  parentPort?.on('message', ({ id, bytes }: Order) => {
    try {
      const { value, transferList } = read(bytes);
      parentPort?.postMessage({ id, value } satisfies Answer, transferList);
    } catch (error) {
      parentPort?.postMessage({ id, fault: toFault(error) } satisfies Answer);
    }
  });
}

/** Memory that nobody else has a part of is handed over, other is copied. */
export function ownMemory({ buffer, byteLength }: ArrayBufferView): Transferable[] {
  return buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : [];
}

function toFault(error: unknown): Fault {
  const kind = error instanceof MalformedRequestError ? 'MalformedRequestError' : 'InvalidRequestError';
  if (error instanceof FAULTS[kind]) return { kind, message: error.message, param: error.param };
  return { kind: null, message: String(error), param: null };
}

function toError({ kind, message, param }: Fault): SvcError {
  if (kind === null) return new SvcError(message);
  return new FAULTS[kind](message, { param: param ?? undefined });
}

function overloaded(): OverloadedError {
  return new OverloadedError('The server has too many large requests to read: try again soon', {
    retryAfter: RETRY_AFTER_SECONDS,
  });
}
