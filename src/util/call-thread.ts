// A thread that does for the main thread what would hold it up: started at the first call, one call after the other,
// restarted when it fails. The messages are typed here, and both ends of them.

import { parentPort, type Transferable, type Worker } from 'node:worker_threads';
import { InvalidRequestError, MalformedRequestError, OverloadedError, SvcError } from '../errors.ts';
import { startThread } from './start-thread.ts';

const RETRY_AFTER_SECONDS = 1;

interface CallThreadOptions {
  readonly name: string;
  /** What the module finds in `workerData.data`. */
  readonly data?: unknown;
  /** A call that takes longer is given up, and the thread with it; the time in which it waits for others does not count. */
  readonly deadlineMs: number;
  /** Calls that may wait; left out where callers are not many by themselves. */
  readonly maxWaiting?: number;
}

type Answer<Value> = { readonly value: Value } | { readonly fault: Fault };

/** An error as plain data: a structured clone would lose its class. */
interface Fault {
  readonly kind: keyof typeof FAULTS | null;
  readonly message: string;
  readonly param: string | null;
}

/** What may be wrong with an order; all else is a defect of ours. */
const FAULTS = { MalformedRequestError, InvalidRequestError } as const;

interface Call<Order, Value> {
  readonly order: Order;
  readonly transferList: readonly Transferable[];
  resolve(value: Value): void;
  reject(error: Error): void;
}

export class CallThread<Order, Value> {
  readonly #module: URL;
  readonly #options: CallThreadOptions;
  readonly #waiting: Call<Order, Value>[] = [];
  #current: Call<Order, Value> | null = null;
  #deadline: NodeJS.Timeout | undefined;
  #worker: Worker | null = null;

  /** @param module URL without its ending; it calls `serveCalls` with the same types. */
  constructor(module: URL, options: CallThreadOptions) {
    this.#module = module;
    this.#options = options;
  }

  /**
   * What the module makes of `order`; memory in `transferList` is the thread's from now on.
   * @throws OverloadedError where too many calls wait already, or this one takes too long.
   */
  call(order: Order, transferList: readonly Transferable[] = []): Promise<Value> {
    const { maxWaiting = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#waiting.length >= maxWaiting) return Promise.reject(overloaded());
    return new Promise((resolve, reject) => {
      this.#waiting.push({ order, transferList, resolve, reject });
      if (this.#current === null) this.#next();
    });
  }

  /** Those that wait get an error. */
  async close(): Promise<void> {
    const closed = new SvcError(`the thread ${this.#options.name} has been closed`);
    for (const { reject } of this.#waiting.splice(0)) reject(closed);
    const worker = this.#worker;
    this.#fail(closed);
    await worker?.terminate();
  }

  #next(): void {
    this.#current = this.#waiting.shift() ?? null;
    // Only what somebody waits for holds the process.
    if (this.#current === null) {
      this.#worker?.unref();
      return;
    }
    this.#worker ??= this.#start();
    this.#worker.ref();
    this.#deadline = setTimeout(() => this.#fail(overloaded()), this.#options.deadlineMs);
    this.#worker.postMessage(this.#current.order, this.#current.transferList);
  }

  #start(): Worker {
    const { name, data } = this.#options;
    const worker = startThread(this.#module, { name, data });
    worker.on('message', (answer: Answer<Value>) => {
      if (worker === this.#worker) this.#settle(answer);
    });
    const die = (cause?: unknown): void => {
      if (worker === this.#worker) this.#fail(new SvcError(`the thread ${name} has died`, { cause }));
    };
    worker.on('error', die).on('exit', () => die());
    return worker;
  }

  #settle(answer: Answer<Value>): void {
    clearTimeout(this.#deadline);
    const call = this.#current;
    this.#next();
    if ('fault' in answer) call?.reject(toError(answer.fault));
    else call?.resolve(answer.value);
  }

  /** Gives the thread up, and with it the call that it was at; the next one gets a new thread. */
  #fail(error: Error): void {
    clearTimeout(this.#deadline);
    void this.#worker?.terminate();
    this.#worker = null;
    this.#current?.reject(error);
    this.#next();
  }
}

export interface Result<Value> {
  readonly value: Value;
  /** Memory of the value that is handed over. */
  readonly transferList: readonly Transferable[];
}

/** The thread's end; the next order comes when this one is answered. */
export function serveCalls<Order, Value>(
  answer: (order: Order) => Result<Value> | Promise<Result<Value>>,
): void {
  parentPort?.on('message', async (order: Order) => {
    try {
      const { value, transferList } = await answer(order);
      parentPort?.postMessage({ value } satisfies Answer<Value>, transferList);
    } catch (error) {
      parentPort?.postMessage({ fault: toFault(error) } satisfies Answer<Value>);
    }
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
