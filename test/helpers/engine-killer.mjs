// Loaded into a server's process by tests: SIGUSR2 ends its worker threads as a crash would.
import { syncBuiltinESMExports } from 'node:module';
import threads from 'node:worker_threads';

if (threads.isMainThread) {
  const { Worker } = threads;
  threads.Worker = class extends Worker {
    constructor(...args) {
      super(...args);
      process.on('SIGUSR2', () => this.terminate());
    }
  };
  syncBuiltinESMExports();
}
