// The error with which an instance answered, for a client that has the head of a stream already: it can only be told as an event.

import * as z from 'zod';
import { SvcError } from '../errors.ts';
import { parseJson } from '../util/parse-json.ts';
import type { ResponseHead } from './upstream-request.ts';

/** As far as the protocols agree. */
const errorBody = z.object({
  error: z.object({ message: z.string(), type: z.string().nullish(), param: z.string().nullish() }),
});

export class Refusal extends SvcError {
  override readonly status: number;
  override readonly type: string;

  constructor({ status }: ResponseHead, body: Buffer) {
    const { data } = errorBody.safeParse(parseJson(body.toString()));
    super(data?.error.message ?? `The instance answered with status ${status}`, {
      param: data?.error.param ?? undefined,
    });
    this.status = status;
    this.type = data?.error.type ?? 'InternalServerError';
  }

  /** The instance has told it to a client. */
  override get isPublic(): boolean {
    return true;
  }
}
