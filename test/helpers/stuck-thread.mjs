// Loaded into a server's process by tests: SIGUSR2 starts a thread that is stuck in native code from then on, where nothing but
// the end of the process reaches it. It opens a pipe that nobody writes to, the path in STUCK_ON.
import { isMainThread, Worker } from 'node:worker_threads';

if (isMainThread) {
  process.once('SIGUSR2', () => {
    const code = `process._rawDebug('a thread is stuck'); require('node:fs').openSync(process.env.STUCK_ON)`;
    new Worker(code, { eval: true, execArgv: [] });
  });
}
