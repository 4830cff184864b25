// Loaded into a server's process by tests: SIGUSR2 ends the threads of its ranks, but for the first, as a crash would.
import { syncBuiltinESMExports } from 'node:module';
import threads from 'node:worker_threads';

const signals = new BroadcastChannel('rank-killer');
signals.unref();
if (threads.isMainThread) {
  process.on('SIGUSR2', () => signals.postMessage('end'));
} else {
  const { Worker } = threads;
  threads.Worker = class extends Worker {
    constructor(...args) {
      super(...args);
      signals.onmessage = () => this.terminate();
      signals.unref();
    }
  };
  syncBuiltinESMExports();
}
