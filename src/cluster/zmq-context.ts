// The one ZeroMQ context of this process. An instance has a socket for each peer, and a process may hold many instances.

import { Context } from 'zeromq';

/** The most that ZeroMQ allows; its default of 1023 is enough for a few hundred peers only. */
const MAX_SOCKETS = 65_535;

let shared: Context | null = null;

/** Made at first use, so that other processes get no ZeroMQ threads. Not blocky: unsent messages do not keep the process alive. */
export function zmqContext(): Context {
  shared ??= new Context({ maxSockets: MAX_SOCKETS, blocky: false });
  return shared;
}
