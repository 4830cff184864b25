// Carries one instance's event stream to the client until it ends, well or badly; what the client has then is in the
// journal.

import type { ClientReply } from './client-reply.ts';
import { BrokenStreamError, EventFilter } from './event-filter.ts';
import type { Journal } from './journal.ts';
import type { Leg } from './leg.ts';

/**
 * Resolves when the last event has been written.
 * @param onEvents called with each part that goes to the client, before it goes.
 * @throws LegFailure or BrokenStreamError where the stream ends too early.
 */
export async function relayStream(
  leg: Leg,
  journal: Journal,
  client: ClientReply,
  onEvents: () => void,
): Promise<void> {
  const filter = new EventFilter(journal);
  await leg
    .pipe((chunk) => {
      const parts = filter.take(chunk);
      if (parts.length > 0) {
        onEvents();
        pass(parts.length === 1 ? parts[0]! : Buffer.concat(parts), leg, client);
      }
      // What follows the last event is of no interest, and what follows a failure is no use.
      if (filter.failure !== null) leg.cancel();
    })
    .catch((failure: unknown) => {
      if (filter.failure !== null) throw filter.failure;
      if (!journal.isDone) throw failure;
    });
  if (!journal.isDone) throw new BrokenStreamError('the stream ended without its last event');
}

/** The stream of an instance that keeps no journal: its bytes as they are. */
export async function relayBytes(leg: Leg, client: ClientReply, onBytes: () => void): Promise<void> {
  await leg.pipe((chunk) => {
    onBytes();
    pass(chunk, leg, client);
  });
}

function pass(bytes: Buffer, leg: Leg, client: ClientReply): void {
  if (client.write(bytes)) return;
  leg.pause();
  client.onceCaughtUp(() => leg.resume());
}
