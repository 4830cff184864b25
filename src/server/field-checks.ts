// Checks of the fields that both generation endpoints share: some are not served, some contradict each other.

import type { InferenceEngine } from '../engine/inference-engine.ts';
import { InvalidRequestError } from '../errors.ts';
import { refuseUnavailable } from '../sampling/sampling-fields.ts';
import { type CommonFields, ignoredFields, replacements } from './protocol/common-fields.ts';
import type { ServerContext } from './server-context.ts';

/** The fields that an endpoint knows. */
export interface FieldTables {
  readonly served: object;
  readonly unavailable: Readonly<Record<string, readonly unknown[]>>;
  readonly ignored: ReadonlySet<string>;
}

/** @throws NotFoundError, NotAvailableError or InvalidRequestError for the first field that is refused. */
export function checkCommonFields(
  context: ServerContext,
  engine: InferenceEngine,
  body: CommonFields,
  tables: FieldTables,
): void {
  context.adapterOf(body.model, engine);
  refuseUnavailable(body, tables.unavailable, replacements);
  checkStream(body);
  checkPriority(body, engine);
  if (!body.use_beam_search && (body.length_penalty ?? 1) !== 1) {
    throw new InvalidRequestError('length_penalty is only for beam search: set use_beam_search to true', {
      param: 'length_penalty',
    });
  }
  reportUnknownFields(context, body, tables);
}

/** @throws NotAvailableError for the first field of a body of another protocol that is refused. */
export function checkOwnFields(context: ServerContext, body: unknown, tables: FieldTables): void {
  if (typeof body !== 'object' || body === null) return;
  refuseUnavailable(body, tables.unavailable);
  reportUnknownFields(context, body, tables);
}

function reportUnknownFields(
  context: ServerContext,
  body: object,
  { served, unavailable, ignored }: FieldTables,
): void {
  const isKnown = (field: string): boolean =>
    Object.hasOwn(served, field) ||
    Object.hasOwn(unavailable, field) ||
    ignored.has(field) ||
    ignoredFields.has(field);
  context.reportUnknownFields(Object.keys(body).filter((field) => !isKnown(field)));
}

function checkStream(body: CommonFields): void {
  if (body.stream_options && !body.stream) {
    throw new InvalidRequestError('stream_options is only for streams: set stream to true or leave it out', {
      param: 'stream_options',
    });
  }
  if (!body.stream) return;
  if ((body.prompt_logprobs ?? 0) !== 0) {
    throw new InvalidRequestError('prompt_logprobs cannot be streamed: set stream to false', {
      param: 'prompt_logprobs',
    });
  }
  if (body.use_beam_search) {
    throw new InvalidRequestError(
      'use_beam_search cannot be streamed, because the best beam is known at the end only: set stream to false',
      { param: 'use_beam_search' },
    );
  }
}

/** @throws InvalidRequestError for a priority where there are none. */
export function checkPriority({ priority }: Pick<CommonFields, 'priority'>, engine: InferenceEngine): void {
  if ((priority ?? 0) === 0 || engine.hasPriorities) return;
  throw new InvalidRequestError(
    `priority must be 0 on this server, which serves requests in the order of their arrival, got ${priority}; ` +
      'started with --scheduling-policy priority it would take others',
    { param: 'priority' },
  );
}
