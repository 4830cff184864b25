// Sends a JSON answer of any length without holding the thread, or memory for all of it.

import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { yieldTurn } from '../util/yield-turn.ts';
import { jsonPieces } from './json-pieces.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

/**
 * @param body as `jsonPieces` takes it; its lazy parts must not throw.
 * @returns the value for the route's handler to return.
 */
export async function replyJson(reply: FastifyReply, body: object): Promise<FastifyReply> {
  await yieldTurn();
  const pieces = jsonPieces(body);
  const first = pieces.next().value ?? '';
  const second = pieces.next();
  reply.type(JSON_TYPE);
  // Most answers are one piece: they go with their length.
  if (second.done) return reply.send(first);
  const made = [first, second.value];
  return reply.send(Readable.from(inTurns(made, pieces), { objectMode: false }));
}

/** The pieces that are made, then the others, each when the reader has room for it. */
async function* inTurns(
  made: readonly string[],
  others: Iterable<string>,
): AsyncGenerator<string, void, undefined> {
  yield* made;
  for (const piece of others) {
    yield piece;
    await yieldTurn();
  }
}
