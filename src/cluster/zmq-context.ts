// The one ZeroMQ context of this process for KV transfer: an instance has a socket a peer, and a process may hold many
// instances.

import { Context } from 'zeromq';

/** What ZeroMQ allows; its default of 1023 ends at a few hundred peers. */
const MAX_SOCKETS = 65_535;

let shared: Context | null = null;

/** Made at first use: only who transfers has the threads of it. Not blocky: no message keeps the process alive. */
export function zmqContext(): Context {
  shared ??= new Context({ maxSockets: MAX_SOCKETS, blocky: false });
  return shared;
}
