// Loaded into a server's process by tests: SIGUSR2 ends the thread of rank 1, as a crash would, when it looks for its next message: while
// it computes, in the middle of a step.
import { syncBuiltinESMExports } from 'node:module';
import threads from 'node:worker_threads';

const signals = new BroadcastChannel('rank-killer');
signals.unref();
if (threads.isMainThread) {
  process.on('SIGUSR2', () => signals.postMessage('end'));
} else if (threads.workerData?.data?.seats?.[0].rank === 1) {
  // Of a thread that waits on its event loop.
  signals.onmessage = () => process.exit();
  signals.unref();
  const { receiveMessageOnPort } = threads;
  threads.receiveMessageOnPort = (port) => {
    if (receiveMessageOnPort(signals) !== undefined) process.exit();
    return receiveMessageOnPort(port);
  };
  syncBuiltinESMExports();
}
