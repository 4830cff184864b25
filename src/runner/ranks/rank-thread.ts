// Entry of the thread of a follower. It computes each step that rank 0 sends, and learns the tokens that rank 0 samples where the
// ops of both meet. While steps run it takes its messages without going back to the event loop; it sleeps there only when there
// is nothing to compute.

import { workerData } from 'node:worker_threads';
import { packError } from '../../util/packed-error.ts';
import type { Executor } from '../executor.ts';
import { type LoadListeners, loadRunner } from '../load-runner.ts';
import type { FromRank, RankThreadData } from './messages.ts';
import { RankInbox } from './rank-inbox.ts';

/** How long it waits for the next step before it makes sure that the one before it was computed. */
const PATIENCE_MS = 100;

// Rank 0 is the only one that starts this file.
const { port, sent, config, seat }: RankThreadData = workerData.data;
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
  const loaded = await loadRunner(config, listeners, { seat, agree });
  send({ type: 'ready', share: loaded.info.ranks[0]!, kvParts: loaded.kvParts });
  return loaded;
}

/** The least that any rank proposes. */
async function agree(own: () => number): Promise<number> {
  send({ type: 'proposed', value: own() });
  const answer = await inbox.next();
  if (answer.type !== 'agreed') throw new Error(`rank 0 answered a proposal with ${answer.type}`);
  return answer.value;
}

/** Computes what rank 0 sends until it says `close`. */
async function follow(executor: Executor): Promise<void> {
  let numInFlight = 0;
  const read = (numLeft: number): void => {
    for (; numInFlight > numLeft; numInFlight -= 1) executor.read();
  };
  while (true) {
    const message = numInFlight === 0 ? await inbox.next() : inbox.nextWithin(PATIENCE_MS);
    if (message === null) {
      read(0);
      continue;
    }
    if (message.type === 'close') return;
    if (message.type !== 'step') throw new Error(`rank 0 sent ${message.type} to a rank that computes`);
    executor.forward(message.step, 1);
    executor.sample([]);
    numInFlight += 1;
    read(1);
  }
}

function send(message: FromRank): void {
  port.postMessage(message);
}
