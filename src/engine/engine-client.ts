// The main thread's end of the engine thread: starts it, sends requests, hands each request its tokens, and tells
// everybody when it has died.

import { type MessagePort, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import type { EngineConfig } from '../config/engine-config.ts';
import { EngineDeadError, EngineHangsError } from '../errors.ts';
import type { KvMemoryPart, KvTransferCommand, KvTransferEvent } from '../kv-transfer/connector.ts';
import type { AdapterSpec, LoadedAdapter } from '../models/adapters/load-adapter.ts';
import type { EngineInfo } from '../runner/executor.ts';
import type { NewRequest } from '../scheduler/request.ts';
import type { TokenOutput } from '../scheduler/scheduler.ts';
import { unpackError } from '../util/packed-error.ts';
import { within } from '../util/within.ts';
import { TurnShare } from '../util/yield-turn.ts';
import { Calls } from './calls.ts';
import type { CoreStats, FromEngine, ToEngine } from './messages.ts';
import { unpackOutputs } from './packed-outputs.ts';
import type { Pulse } from './pulse.ts';
import { type EngineThread, spawnEngineThread } from './spawn-engine.ts';

/** A load that gets no further for so long is stuck. */
const START_DEADLINE_MS = 600_000;
/** The engine closes between two steps; a step that takes longer hangs. */
const CLOSE_DEADLINE_MS = 30_000;
/** A thread that is not stuck in native code ends sooner. */
const TERMINATE_DEADLINE_MS = 5000;
/** Longer than steps of thousands of tokens of the largest models. Processors compute a hundredth of what GPUs do. */
const STEP_DEADLINE_SECONDS = { gpu: 300, processor: 7200 };
/** So often the engine is looked at in the time that a step may take. */
const LOOKS_A_STEP = 20;
/** Milliseconds of each turn of the event loop in which requests are handed their tokens. */
const MAX_DELIVERY_MS = 2;

/** A request, and what is to be told of its progress. */
export interface RequestListener {
  readonly request: NewRequest;
  onSent(): void;
  /** @param at when the engine thread finished the step, by its clock. */
  onOutput(output: TokenOutput, at: number): void;
  onDeath(error: EngineDeadError): void;
  /** Nobody wants it any more. */
  onWithdrawn(): void;
}

export interface EngineClientOptions {
  /** One that was spawned before there was a configuration; left out, one is spawned. */
  readonly thread?: EngineThread | undefined;
  /** What errors call it; left out, `the engine`. */
  readonly name?: string | undefined;
  readonly onProgress?: ((fraction: number, what: string) => void) | undefined;
  /** Gets warnings for a person; nothing fails because of them. */
  readonly onWarning?: ((message: string) => void) | undefined;
}

type Ready = Extract<FromEngine, { readonly type: 'ready' }>;
type Outputs = Extract<FromEngine, { readonly type: 'outputs' }>;

export class EngineClient {
  /** Resolves when the engine thread ends without having been told to. */
  readonly died: Promise<EngineDeadError>;
  /** Gets what the engine thread tells of sequences that wait for KV blocks. */
  kvConsumer: { onTransferEvent(event: KvTransferEvent): void } | null = null;
  /** Gets how many tokens each step has computed. */
  onStep: (numTokens: number) => void = () => {};
  readonly #name: string;
  readonly #onWarning: (message: string) => void;
  #ready: Ready | null = null;
  readonly #port: MessagePort;
  readonly #pulse: Pulse;
  readonly #worker: Worker;
  readonly #ended: Promise<Error>;
  readonly #listeners = new Map<number, RequestListener>();
  readonly #statsCalls = new Calls<CoreStats>();
  readonly #resetCalls = new Calls<boolean>();
  readonly #adapterCalls = new Calls<LoadedAdapter>();
  readonly #reportDeath: (error: EngineDeadError) => void;
  /** A share of its own: the tokens of all streams do not wait for the long work of some. */
  readonly #delivery = new TurnShare(MAX_DELIVERY_MS);
  /** Resolves when all that the thread has said so far is handled. */
  #handled: Promise<void> = Promise.resolve();
  #deadWith: EngineDeadError | null = null;
  #isClosing = false;

  private constructor(
    config: EngineConfig,
    { thread = spawnEngineThread(), name = 'the engine', onWarning = () => {} }: EngineClientOptions,
  ) {
    const { worker, port, pulse, ended } = thread;
    this.#name = name;
    this.#onWarning = onWarning;
    this.#port = port;
    this.#pulse = pulse;
    this.#worker = worker;
    this.#ended = ended;
    worker.ref();
    worker.postMessage(config);
    let reportDeath: (error: EngineDeadError) => void = () => {};
    this.died = new Promise((resolve) => {
      reportDeath = resolve;
    });
    this.#reportDeath = reportDeath;
  }

  /** @throws ModelLoadError, ConfigError or NativeAddonError as the engine thread found them. */
  static async start(
    config: EngineConfig,
    options: EngineClientOptions = {},
    /** Aborts the start and ends the thread at once. */
    signal?: AbortSignal,
  ): Promise<EngineClient> {
    const client = new EngineClient(config, options);
    try {
      client.#ready = await client.#waitUntilReady(options, signal);
    } catch (error) {
      await client.#terminate();
      throw error;
    }
    const receive = (message: FromEngine): void => {
      // A sequence that waits for its blocks does not wait for the text of others.
      if (message.type === 'transferEvent') client.kvConsumer?.onTransferEvent(message.event);
      else client.#inOrder(() => client.#receive(message));
    };
    client.#port.on('message', receive);
    void client.#ended.then((reason) => {
      client.#takeLastWords(receive);
      client.#inOrder(() => client.#die(reason));
    });
    client.#watchSteps(config);
    client.#holdProcess();
    return client;
  }

  get info(): EngineInfo {
    if (this.#ready === null) throw new Error('the engine is not ready');
    return this.#ready.info;
  }

  /** The engine's KV memory, for one transfer engine; empty where no KV blocks are exchanged. */
  get kvParts(): readonly KvMemoryPart[] {
    return this.#ready?.kvParts ?? [];
  }

  /** Those of the configuration, in its order. */
  get adapters(): readonly LoadedAdapter[] {
    return this.#ready?.adapters ?? [];
  }

  get isAlive(): boolean {
    return this.#deadWith === null && !this.#isClosing;
  }

  /** Sends them in one message: what the samples of a request share is copied once. A dead engine tells them at once. */
  add(listeners: readonly RequestListener[]): void {
    if (listeners.length === 0) return;
    const death = this.#death;
    for (const listener of listeners) {
      listener.onSent();
      if (death !== null) listener.onDeath(death);
      else this.#listeners.set(listener.request.id, listener);
    }
    if (death !== null) return;
    this.#holdProcess();
    this.#send({ type: 'add', requests: listeners.map(({ request }) => request) });
  }

  /** Forgets the requests and frees their blocks; those that are not in flight are ignored. */
  abort(requests: readonly NewRequest[]): void {
    const requestIds = requests.map(({ id }) => id).filter((id) => this.#listeners.delete(id));
    if (requestIds.length === 0 || !this.isAlive) return;
    this.#holdProcess();
    this.#send({ type: 'abort', requestIds });
  }

  /** What the connector tells the engine thread; ignored once that has ended. */
  applyTransfer(command: KvTransferCommand): void {
    if (this.isAlive) this.#send({ type: 'applyTransfer', command });
  }

  stats(): Promise<CoreStats> {
    return this.#ask(this.#statsCalls, (callId) => ({ type: 'stats', callId }));
  }

  /** False, and nothing is forgotten, while requests run. */
  resetPrefixCache(): Promise<boolean> {
    return this.#ask(this.#resetCalls, (callId) => ({ type: 'resetPrefixCache', callId }));
  }

  /**
   * Loads an adapter between the steps of other requests.
   * @throws ModelLoadError naming what is wrong with it.
   */
  loadAdapter(spec: AdapterSpec): Promise<LoadedAdapter> {
    return this.#ask(this.#adapterCalls, (callId) => ({ type: 'loadAdapter', callId, spec }));
  }

  /** Frees an adapter that no request names any more. */
  unloadAdapter(adapterId: number): void {
    if (this.isAlive) this.#send({ type: 'unloadAdapter', adapterId });
  }

  /** It is dead from now on, or ends at once with another one that has died; requests in flight get the error. */
  end(death: EngineDeadError): void {
    if (!this.isAlive) return;
    this.#deadWith = death;
    this.#failAll(death);
    this.#reportDeath(death);
    void this.#worker.terminate();
  }

  /** Ends the engine thread; requests in flight get an EngineDeadError. */
  async close(): Promise<void> {
    if (!this.#isClosing) {
      this.#isClosing = true;
      this.#send({ type: 'close' });
      this.#failAll(new EngineDeadError('the engine has been closed'));
    }
    this.#worker.ref();
    if (this.#deadWith === null && (await this.#endsWithin(CLOSE_DEADLINE_MS))) return;
    await this.#terminate();
  }

  /** A thread that is stuck in native code never ends: whoever waits for its end goes on. */
  async #terminate(): Promise<void> {
    void this.#worker.terminate();
    if (!(await this.#endsWithin(TERMINATE_DEADLINE_MS))) this.#worker.unref();
  }

  #endsWithin(deadlineMs: number): Promise<boolean> {
    return within(
      deadlineMs,
      this.#ended.then(() => {}),
    );
  }

  #waitUntilReady({ onProgress }: EngineClientOptions, signal?: AbortSignal): Promise<Ready> {
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        cleanUp();
        reject(error);
      };
      let isStarting = true;
      void this.#ended.then((reason) => {
        if (!isStarting) return;
        this.#takeLastWords(receive);
        fail(
          new EngineDeadError(`${this.#name} has died while it was starting: ${reason.message}`, {
            cause: reason,
          }),
        );
      });
      const late = (): void =>
        fail(
          new EngineDeadError(
            `the start of the engine got no further for ${START_DEADLINE_MS / 1000} seconds`,
          ),
        );
      const aborted = (): void => fail(new EngineDeadError('the start of the engine was given up'));
      const timer = setTimeout(late, START_DEADLINE_MS);
      const receive = (message: FromEngine): void => {
        timer.refresh();
        if (message.type === 'progress') onProgress?.(message.fraction, message.what);
        if (message.type === 'warning') this.#onWarning(message.message);
        if (message.type === 'failed') fail(unpackError(message.error));
        if (message.type === 'ready') {
          cleanUp();
          resolve(message);
        }
      };
      const cleanUp = (): void => {
        isStarting = false;
        clearTimeout(timer);
        signal?.removeEventListener('abort', aborted);
        this.#port.off('message', receive);
      };
      signal?.addEventListener('abort', aborted, { once: true });
      this.#port.on('message', receive);
    });
  }

  /** Ends an engine that does not come to the end of a step. */
  #watchSteps({ executeModelTimeout: limit }: EngineConfig): void {
    const { gpu, processor } = STEP_DEADLINE_SECONDS;
    const seconds = limit ?? (this.info.isOnGpu ? gpu : processor);
    if (seconds === 0) return;
    let last = this.#pulse.last;
    // Looks are counted, for a process that was stopped has not computed meanwhile.
    let looks = 0;
    const look = (): void => {
      const current = this.#pulse.last;
      looks = current === null || current !== last ? 0 : looks + 1;
      last = current;
      if (looks < LOOKS_A_STEP) return;
      const why = `a step has taken longer than ${seconds} seconds (--execute-model-timeout)`;
      this.end(new EngineHangsError(`${this.#name} hangs: ${why}`));
    };
    const timer = setInterval(look, (seconds * 1000) / LOOKS_A_STEP).unref();
    const stop = () => clearInterval(timer);
    void Promise.race([this.died, this.#ended]).then(stop);
  }

  /** The end of a thread may be heard before what it said last. */
  #takeLastWords(receive: (message: FromEngine) => void): void {
    for (let last = receiveMessageOnPort(this.#port); last; last = receiveMessageOnPort(this.#port)) {
      receive(last.message);
    }
  }

  /** Handles what the thread says, and its end, one after the other: some of it takes several turns. */
  #inOrder(handle: () => void | Promise<void>): void {
    this.#handled = this.#handled.then(handle);
  }

  async #receive(message: FromEngine): Promise<void> {
    if (message.type === 'outputs') await this.#deliver(message);
    if (message.type === 'warning') this.#onWarning(message.message);
    if (message.type === 'failed') this.#die(unpackError(message.error));
    if (message.type === 'stats') this.#statsCalls.settle(message.callId, message.stats);
    if (message.type === 'adapterLoaded') this.#adapterCalls.settle(message.callId, message.adapter);
    if (message.type === 'adapterRefused')
      this.#adapterCalls.fail(message.callId, unpackError(message.error));
    if (message.type === 'prefixCacheReset') this.#resetCalls.settle(message.callId, message.isReset);
    this.#holdProcess();
  }

  /** A step may end hundreds of samples, each of which lets another one start: too much for one turn. */
  async #deliver({ at, numTokens, outputs }: Outputs): Promise<void> {
    this.onStep(numTokens);
    for (const output of unpackOutputs(outputs)) {
      const listener = this.#listeners.get(output.requestId);
      if (output.finish !== null) this.#listeners.delete(output.requestId);
      listener?.onOutput(output, at);
      await this.#delivery.yieldTurn();
    }
  }

  #die(cause: Error): void {
    this.end(new EngineDeadError(`${this.#name} has died: ${cause.message}`, { cause }));
  }

  #failAll(error: EngineDeadError): void {
    const listeners = [...this.#listeners.values()];
    this.#listeners.clear();
    for (const listener of listeners) listener.onDeath(error);
    this.#statsCalls.rejectAll(error);
    this.#resetCalls.rejectAll(error);
    this.#adapterCalls.rejectAll(error);
  }

  /** Rejects, also at once: whoever asks several engines then waits for each of them. */
  async #ask<T>(calls: Calls<T>, messageOf: (callId: number) => ToEngine): Promise<T> {
    if (this.#death !== null) throw this.#death;
    const answer = calls.ask((callId) => this.#send(messageOf(callId)));
    this.#holdProcess();
    return answer;
  }

  /** Only pending work keeps the process alive: a program that forgets close() still ends. */
  #holdProcess(): void {
    const numCalls = this.#statsCalls.size + this.#resetCalls.size + this.#adapterCalls.size;
    const isAwaited = this.#listeners.size + numCalls > 0;
    for (const handle of [this.#worker, this.#port]) {
      if (isAwaited) handle.ref();
      else handle.unref();
    }
  }

  get #death(): EngineDeadError | null {
    return this.#isClosing ? new EngineDeadError('the engine has been closed') : this.#deadWith;
  }

  #send(message: ToEngine): void {
    this.#port.postMessage(message);
  }
}
