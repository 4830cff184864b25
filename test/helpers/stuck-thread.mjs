// Loaded into a process of svc by tests: SIGUSR2, or the signal in STUCK_AT, starts a thread that is stuck in native code from then
// on, where nothing but the end of the process reaches it. It opens a pipe that nobody writes to, the path in STUCK_ON.
import { isMainThread, Worker } from 'node:worker_threads';

const BY_THEN_MS = 300;

if (isMainThread) {
  process.once(process.env.STUCK_AT ?? 'SIGUSR2', () => {
    const code = `
      require('node:worker_threads').parentPort.postMessage('about to be');
      require('node:fs').openSync(process.env.STUCK_ON);`;
    const worker = new Worker(code, { eval: true, execArgv: [] });
    // Until then it can be ended like any other.
    worker.once('message', () => setTimeout(() => process._rawDebug('a thread is stuck'), BY_THEN_MS));
  });
}
