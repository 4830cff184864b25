// A thread that does for the main thread what would hold it up: started at the first call, one call after the other,
// restarted when it fails. The messages are typed here, and both ends of them.

import { parentPort, type Transferable, type Worker } from 'node:worker_threads';
import { InvalidRequestError, MalformedRequestError, OverloadedError, SvcError } from '../errors.ts';
import { startThread } from './start-thread.ts';

/** Calls that wait, the one that is being answered included. */
const MAX_WAITING = 64;
const RETRY_AFTER_SECONDS = 1;

export interface CallThreadOptions {
  readonly name: string;
  /** What the module finds in `workerData.data`. */
  readonly data?: unknown;
  /** A call that has not been answered by then is given up, and the thread with it. */
  readonly deadlineMs: number;
}

interface Call<Order> {
  readonly id: number;
  readonly order: Order;
}

type Answer<Value> =
  | { readonly id: number; readonly value: Value }
  | { readonly id: number; readonly fault: Fault };

/** An error as plain data: a structured clone would lose its class. */
interface Fault {
  readonly kind: keyof typeof FAULTS | null;
  readonly message: string;
  readonly param: string | null;
}

/** What may be wrong with an order; all else is a defect of ours. */
const FAULTS = { MalformedRequestError, InvalidRequestError } as const;

interface Waiting<Value> {
  resolve(value: Value): void;
  reject(error: Error): void;
  readonly deadline: NodeJS.Timeout;
}

export class CallThread<Order, Value> {
  readonly #module: URL;
  readonly #options: CallThreadOptions;
  readonly #waiting = new Map<number, Waiting<Value>>();
  #worker: Worker | null = null;
  #nextId = 0;

  /** @param module URL without its ending; it calls `serveCalls` with the same types. */
  constructor(module: URL, options: CallThreadOptions) {
    this.#module = module;
    this.#options = options;
  }

  /**
   * What the module makes of `order`; memory in `transferList` is the thread's from now on.
   * @throws OverloadedError where too many calls wait already, or the thread does not get to this one in time.
   */
  call(order: Order, transferList: readonly Transferable[] = []): Promise<Value> {
    if (this.#waiting.size >= MAX_WAITING) return Promise.reject(overloaded());
    this.#worker ??= this.#start();
    const call: Call<Order> = { id: this.#nextId++, order };
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(() => this.#fail(overloaded()), this.#options.deadlineMs).unref();
      this.#waiting.set(call.id, { resolve, reject, deadline });
      this.#worker?.ref();
      this.#worker?.postMessage(call, transferList);
    });
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    this.#fail(new SvcError(`the thread ${this.#options.name} has been closed`));
    await worker?.terminate();
  }

  #start(): Worker {
    const { name, data } = this.#options;
    const worker = startThread(this.#module, { name, data });
    worker.on('message', (answer: Answer<Value>) => this.#settle(answer));
    worker.on('error', (cause) => {
      if (worker === this.#worker) this.#fail(new SvcError(`the thread ${name} has died`, { cause }));
    });
    return worker;
  }

  #settle(answer: Answer<Value>): void {
    const waiting = this.#waiting.get(answer.id);
    if (waiting === undefined) return;
    clearTimeout(waiting.deadline);
    this.#waiting.delete(answer.id);
    // Only what somebody waits for holds the process.
    if (this.#waiting.size === 0) this.#worker?.unref();
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

export interface Result<Value> {
  readonly value: Value;
  /** Memory of the value that is handed over. */
  readonly transferList: readonly Transferable[];
}

/** The thread's end: answers one order after the other. */
export function serveCalls<Order, Value>(
  answer: (order: Order) => Result<Value> | Promise<Result<Value>>,
): void {
  let lastTurn: Promise<void> = Promise.resolve();
  const serve = async ({ id, order }: Call<Order>): Promise<void> => {
    try {
      const { value, transferList } = await answer(order);
      parentPort?.postMessage({ id, value } satisfies Answer<Value>, transferList);
    } catch (error) {
      parentPort?.postMessage({ id, fault: toFault(error) } satisfies Answer<Value>);
    }
  };
  parentPort?.on('message', (call: Call<Order>) => {
    lastTurn = lastTurn.then(() => serve(call));
  });
}

/** The memory of `view` where nobody else has a part of it; what is not handed over is copied. */
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
