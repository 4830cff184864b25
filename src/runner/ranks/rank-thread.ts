// Entry of the thread of a follower. It computes each step that rank 0 sends, and learns the tokens that rank 0 samples where the
// ops of both meet. While steps run it takes its messages without going back to the event loop; it sleeps there only when there
// is nothing to compute.

import { workerData } from 'node:worker_threads';
import type { LoadedAdapter } from '../../models/adapters/load-adapter.ts';
import { packError } from '../../util/packed-error.ts';
import type { Executor } from '../executor.ts';
import { type LoadListeners, loadRunner } from '../load-runner.ts';
import type { FromRank, RankThreadData } from './messages.ts';
import { RankInbox } from './rank-inbox.ts';

/** How long it waits for the next step before it makes sure that the one before it was computed. */
const PATIENCE_MS = 100;

// Rank 0 is the only one that starts this file.
const { port, sent, config, seats }: RankThreadData = workerData.data;
/** Steps that wait or are computed while the next one is awaited: rank 0 has one more in flight, and one in each of several stages. */
const mostInFlight = Math.max(1, seats.length - 1);
const inbox = new RankInbox(port, sent);
let runner: Executor | null = null;
try {
  runner = await load();
  await follow(runner);
} catch (error) {
  // Before the others hear that this rank has ended, they can hear why.
  send({ type: 'failed', error: packError(error) });
} finally {
  runner?.close();
  port.close();
}

async function load(): Promise<Executor> {
  const listeners: LoadListeners = {
    onProgress: (fraction, what) => send({ type: 'progress', fraction, what }),
    onWarning: (message) => send({ type: 'warning', message }),
  };
  const loaded = await loadRunner(config, listeners, { seats, agree });
  const { ranks, isFromPackedCache } = loaded.info;
  send({ type: 'ready', shares: ranks, isFromPackedCache, kvParts: loaded.kvParts });
  return loaded;
}

/** The least that any rank proposes. */
async function agree(own: () => number): Promise<number> {
  send({ type: 'proposed', value: own() });
  const answer = await inbox.next();
  if (answer.type !== 'agreed') throw new Error(`rank 0 answered a proposal with ${answer.type}`);
  return answer.value;
}

/** Does what rank 0 says until it says `close`. */
async function follow(executor: Executor): Promise<void> {
  let numInFlight = 0;
  const read = (numLeft: number): void => {
    for (; numInFlight > numLeft; numInFlight -= 1) executor.read();
  };
  let loading: Generator<void, LoadedAdapter, void> | null = null;
  while (true) {
    const isIdle = numInFlight === 0 && loading === null;
    const message = isIdle ? await inbox.next() : inbox.nextWithin(loading === null ? PATIENCE_MS : 0);
    switch (message?.type) {
      case undefined:
        if (loading === null) read(0);
        else if (isLoaded(loading)) loading = null;
        break;
      case 'see':
        executor.see(message.work);
        break;
      case 'step':
        executor.forward(message.step, 1);
        executor.sample([]);
        numInFlight += 1;
        read(mostInFlight);
        break;
      case 'loadAdapter':
        loading = executor.loadAdapter(message.spec);
        break;
      case 'unloadAdapter':
        executor.unloadAdapter(message.adapterId);
        break;
      case 'close':
        return;
      case 'agreed':
        throw new Error('rank 0 answered a proposal that nobody made');
    }
  }
}

/** Loads one more part of an adapter. @returns whether it was the last one, of which rank 0 has been told. */
function isLoaded(loading: Generator<void, LoadedAdapter, void>): boolean {
  try {
    if (loading.next().done !== true) return false;
    send({ type: 'adapterDone', error: null });
  } catch (error) {
    send({ type: 'adapterDone', error: packError(error) });
  }
  return true;
}

function send(message: FromRank): void {
  port.postMessage(message);
}
