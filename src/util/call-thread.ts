// A thread that does for the main thread what would hold it up: started at the first call, one call after the other, callers
// in turn, restarted when it fails. The messages are typed here, and both ends of them.

import { parentPort, type Transferable, type Worker } from 'node:worker_threads';
import {
  CancelledError,
  InvalidRequestError,
  MalformedRequestError,
  OverloadedError,
  SvcError,
} from '../errors.ts';
import { startThread } from './start-thread.ts';
import { TurnQueue } from './turn-queue.ts';

const RETRY_AFTER_SECONDS = 1;
/** A busy machine needs seconds to start a thread. */
const START_DEADLINE_MS = 60_000;

/** Why a call gets no answer. */
export interface CallThreadErrors {
  /** As many calls wait as may. */
  full(): Error;
  /** It took longer than `deadlineMs`. */
  late(): Error;
  /** It has waited for longer than `waitMs`. */
  waitedTooLong(): Error;
  /** The thread has ended by itself. */
  died(cause: unknown): Error;
  closed(): Error;
}

interface CallThreadOptions<Order> {
  readonly name: string;
  /** What the module finds in `workerData.data`. */
  readonly data?: unknown;
  /** A call that takes longer is given up, and the thread with it; the time in which it waits for others does not count. */
  readonly deadlineMs: number;
  /** How long a call may wait for others; without it, as long as it takes. */
  readonly waitMs?: number;
  /**
   * Calls that may wait, or the sum of their sizes; where there are more, a caller may still have an equal part of so many. Left
   * out where callers are not many by themselves.
   */
  readonly maxWaiting?: number;
  /** What a call takes of `maxWaiting`; 1 where it is left out. */
  readonly sizeOf?: (order: Order) => number;
  /** Memory for what lives long in the thread; it dies where it needs more. */
  readonly memoryMb?: number;
  /** In the words of the caller. */
  readonly errors?: CallThreadErrors;
}

type Answer<Value> = { readonly value: Value } | { readonly fault: Fault } | { readonly isReady: true };

/** An error as plain data: a structured clone would lose its class. */
interface Fault {
  readonly kind: keyof typeof FAULTS | null;
  readonly message: string;
  readonly param: string | null;
}

/** What may be wrong with an order; all else is a defect of ours. */
const FAULTS = { MalformedRequestError, InvalidRequestError } as const;

interface CallOptions {
  /** Memory that is the thread's from now on. */
  readonly transferList?: readonly Transferable[];
  /** Who calls: the others have their turns between two calls of one. */
  readonly caller?: string | undefined;
}

interface Call<Order, Value> {
  readonly caller: string;
  readonly order: Order;
  readonly transferList: readonly Transferable[];
  waitTimer?: NodeJS.Timeout;
  resolve(value: Value): void;
  reject(error: unknown): void;
}

export class CallThread<Order, Value> {
  readonly #module: URL;
  readonly #options: CallThreadOptions<Order>;
  readonly #errors: CallThreadErrors;
  readonly #waiting = new TurnQueue<Call<Order, Value>>();
  /** Of all that wait. */
  #waitingSize = 0;
  #current: Call<Order, Value> | null = null;
  #deadline: NodeJS.Timeout | undefined;
  #worker: Worker | null = null;
  #isReady = false;
  #isClosed = false;

  /** @param module URL without its ending; it calls `serveCalls` with the same types. */
  constructor(module: URL, options: CallThreadOptions<Order>) {
    this.#module = module;
    this.#options = options;
    this.#errors = options.errors ?? defaultErrors(options.name);
  }

  /**
   * What the module makes of `order`.
   * @throws OverloadedError where too many calls wait already, or this one takes too long.
   */
  call(order: Order, { transferList = [], caller = '' }: CallOptions = {}): Promise<Value> {
    const { waitMs } = this.#options;
    if (this.#isClosed) return Promise.reject(this.#errors.closed());
    if (!this.#hasRoomFor(order, caller)) return Promise.reject(this.#errors.full());
    return new Promise((resolve, reject) => {
      const call: Call<Order, Value> = { caller, order, transferList, resolve, reject };
      if (waitMs !== undefined) {
        call.waitTimer = setTimeout(() => this.#giveUp(call, this.#errors.waitedTooLong()), waitMs);
      }
      this.#waiting.add(caller, call);
      this.#waitingSize += this.#sizeOf(order);
      if (this.#current === null) this.#next();
    });
  }

  /** Takes an order back that nobody waits for any more; false where the thread has begun with it, or is done. */
  withdraw(order: Order): boolean {
    for (const call of this.#waiting) {
      if (call.order !== order) continue;
      this.#giveUp(call, new CancelledError('nobody waits for the call any more'));
      return true;
    }
    return false;
  }

  /** Ends the thread; its call, and those that wait, get an error. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const call of [...this.#waiting]) this.#giveUp(call, this.#errors.closed());
    const worker = this.#worker;
    this.#fail(this.#errors.closed());
    await worker?.terminate();
  }

  #hasRoomFor(order: Order, caller: string): boolean {
    // It begins at once, whatever its size.
    if (this.#current === null) return true;
    const { maxWaiting = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#waitingSize + this.#sizeOf(order) <= maxWaiting) return true;
    const own = this.#waiting
      .of(caller)
      .reduce((sum, call) => sum + this.#sizeOf(call.order), this.#sizeOf(order));
    return own <= maxWaiting / this.#waiting.numCallersWith(caller);
  }

  #sizeOf(order: Order): number {
    return this.#options.sizeOf?.(order) ?? 1;
  }

  #next(): void {
    const call = this.#waiting.take() ?? null;
    this.#current = call;
    // Only what somebody waits for holds the process.
    if (call === null) {
      this.#worker?.unref();
      return;
    }
    this.#waitingSize -= this.#sizeOf(call.order);
    clearTimeout(call.waitTimer);
    this.#worker ??= this.#start();
    this.#worker.ref();
    this.#limitTime(this.#isReady ? this.#options.deadlineMs : START_DEADLINE_MS);
    try {
      this.#worker.postMessage(call.order, call.transferList);
    } catch (error) {
      // What cannot be copied is the caller's fault, not the thread's.
      this.#settle(() => call.reject(error));
    }
  }

  #start(): Worker {
    const { name, data, memoryMb } = this.#options;
    const worker = startThread(this.#module, { name, data, memoryMb });
    this.#isReady = false;
    worker.on('message', (answer: Answer<Value>) => {
      if (worker === this.#worker) this.#receive(answer);
    });
    const die = (cause?: unknown): void => {
      if (worker === this.#worker) this.#fail(this.#errors.died(cause));
    };
    worker.on('error', die).on('exit', () => die());
    return worker;
  }

  #receive(answer: Answer<Value>): void {
    if ('isReady' in answer) {
      this.#isReady = true;
      if (this.#current !== null) this.#limitTime(this.#options.deadlineMs);
      return;
    }
    const call = this.#current;
    this.#settle(() => {
      if ('fault' in answer) call?.reject(toError(answer.fault));
      else call?.resolve(answer.value);
    });
  }

  #settle(tell: () => void): void {
    clearTimeout(this.#deadline);
    tell();
    this.#next();
  }

  #limitTime(milliseconds: number): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.#fail(this.#errors.late()), milliseconds);
  }

  #giveUp(call: Call<Order, Value>, error: Error): void {
    clearTimeout(call.waitTimer);
    this.#waiting.remove(call.caller, call);
    this.#waitingSize -= this.#sizeOf(call.order);
    call.reject(error);
  }

  /** Gives the thread up, and with it the call that it was at; the next one gets a new thread. */
  #fail(error: Error): void {
    void this.#worker?.terminate();
    this.#worker = null;
    this.#settle(() => this.#current?.reject(error));
  }
}

export interface Result<Value> {
  readonly value: Value;
  /** Memory of the value that is handed over. */
  readonly transferList?: readonly Transferable[];
}

/** The thread's end; the next order comes when this one is answered. */
export function serveCalls<Order, Value>(
  answer: (order: Order) => Result<Value> | Promise<Result<Value>>,
): void {
  parentPort?.on('message', async (order: Order) => {
    try {
      const { value, transferList = [] } = await answer(order);
      parentPort?.postMessage({ value } satisfies Answer<Value>, transferList);
    } catch (error) {
      parentPort?.postMessage({ fault: toFault(error) } satisfies Answer<Value>);
    }
  });
  parentPort?.postMessage({ isReady: true } satisfies Answer<Value>);
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

function defaultErrors(name: string): CallThreadErrors {
  const overloaded = (): OverloadedError =>
    new OverloadedError('The server has too many large requests to read: try again soon', {
      retryAfter: RETRY_AFTER_SECONDS,
    });
  return {
    full: overloaded,
    late: overloaded,
    waitedTooLong: overloaded,
    died: (cause) => new SvcError(`the thread ${name} has died`, { cause }),
    closed: () => new SvcError(`the thread ${name} has been closed`),
  };
}
