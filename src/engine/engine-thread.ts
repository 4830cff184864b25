// Entry of the engine thread. While steps run it takes its messages without going back to the event loop, as late as
// planning the next step allows; it sleeps on the event loop only when there is nothing to compute.

import { setImmediate } from 'node:timers/promises';
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { EngineConfig } from '../config/engine-config.ts';
import { explained, forSteps } from '../runner/device-memory.ts';
import { packError } from '../util/packed-error.ts';
import { EngineCore } from './engine-core.ts';
import type { EngineThreadData, FromEngine, ToEngine } from './messages.ts';
import { packOutputs } from './packed-outputs.ts';
import { Pulse } from './pulse.ts';

// Our own main thread is the only one that starts this file.
const { port, pulse: memory }: EngineThreadData = workerData.data;
const pulse = new Pulse(memory);
const config = await new Promise<EngineConfig>((resolve) => parentPort?.once('message', resolve));

/** Ends the sleep of `serve`. */
let wake = (): void => {};
/** What has ended a thread that computes for this one. */
let failure: Error | null = null;

try {
  await run(port);
} catch (error) {
  send(port, { type: 'failed', error: packError(error) });
} finally {
  port.close();
}

async function run(channel: MessagePort): Promise<void> {
  const core = await EngineCore.start(config, {
    onProgress: (fraction, what) => send(channel, { type: 'progress', fraction, what }),
    onTransferEvent: (event) => send(channel, { type: 'transferEvent', event }),
    onWarning: (message) => send(channel, { type: 'warning', message }),
    onFailure: (error) => {
      failure = error;
      wake();
    },
  });
  const { info, kvParts, adapters } = core.executor;
  send(channel, { type: 'ready', info, kvParts, adapters });
  try {
    await serve(core, channel);
  } catch (error) {
    throw explained(error, forSteps(config.kvCacheMemoryBytes));
  } finally {
    core.close();
  }
}

/** Steps while there is work, sleeps while there is nothing to do, returns when told to close. */
async function serve(core: EngineCore, channel: MessagePort): Promise<void> {
  /** Messages that the event loop has delivered; it runs only while this thread sleeps. */
  const delivered: ToEngine[] = [];
  channel.on('message', (message: ToEngine) => {
    delivered.push(message);
    wake();
  });
  let isIdle = true;
  while (true) {
    if (!isIdle) core.awaitPlanPoint();
    else if (failure === null && delivered.length === 0) {
      pulse.rest();
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    pulse.beat();
    if (failure !== null) throw failure;
    for (const message of [...delivered.splice(0), ...undelivered(channel)]) {
      if (message.type === 'close') return;
      handle(core, channel, message);
    }
    const finished = core.step();
    for (const { outputs, ...step } of finished ?? []) {
      send(channel, { type: 'outputs', ...step, outputs: packOutputs(outputs) });
    }
    const isLoading = core.tendAdapters();
    // Only there the end of a thread is heard that was to load as well.
    if (isLoading) await setImmediate();
    isIdle = finished === null && !isLoading;
  }
}

/** Messages that have arrived and that the event loop has not delivered yet, in order. */
function* undelivered(channel: MessagePort): Generator<ToEngine> {
  for (let next = receiveMessageOnPort(channel); next; next = receiveMessageOnPort(channel)) {
    yield next.message;
  }
}

function handle(core: EngineCore, outbox: MessagePort, message: Exclude<ToEngine, { type: 'close' }>): void {
  const { scheduler } = core;
  switch (message.type) {
    case 'add':
      for (const request of message.requests) scheduler.add(request);
      break;
    case 'abort':
      for (const requestId of message.requestIds) scheduler.abort(requestId);
      break;
    case 'applyTransfer':
      scheduler.applyTransfer(message.command);
      break;
    case 'loadAdapter': {
      const { callId, spec } = message;
      core.addAdapter(spec, {
        onLoaded: (adapter) => send(outbox, { type: 'adapterLoaded', callId, adapter }),
        onRefused: (error) => send(outbox, { type: 'adapterRefused', callId, error: packError(error) }),
      });
      break;
    }
    case 'unloadAdapter':
      core.retireAdapter(message.adapterId);
      break;
    case 'stats':
      send(outbox, { type: 'stats', callId: message.callId, stats: core.stats });
      break;
    case 'resetPrefixCache': {
      const isReset = scheduler.resetPrefixCache();
      send(outbox, { type: 'prefixCacheReset', callId: message.callId, isReset });
      break;
    }
  }
}

function send(outbox: MessagePort, message: FromEngine): void {
  outbox.postMessage(message);
}
