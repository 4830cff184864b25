// Loaded into a server's process by tests: ends the thread of rank 1, as a crash would, when it is told to load an adapter.
import { workerData } from 'node:worker_threads';

const { seats, port } = workerData?.data ?? {};
if (seats?.[0].rank === 1) {
  port.on('message', ({ type }) => {
    if (type === 'loadAdapter') process.exit();
  });
}
