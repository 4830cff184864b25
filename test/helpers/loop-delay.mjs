// Loaded into a server by a test: on SIGUSR2 it writes how long its main thread was held at most since the last time.
import { writeSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  process.on('SIGUSR2', () => {
    writeSync(2, `\nheld ${delay.max / 1e6}\n`);
    delay.reset();
  });
}
