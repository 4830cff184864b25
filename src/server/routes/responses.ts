// POST /v1/responses: items become a conversation through the model's template, and the answer is kept for those who come back
// to it; the routes below /v1/responses/{id} are about what is kept. POST /v1/responses/input_tokens only counts.

import type { FastifyInstance, FastifyRequest } from 'fastify';
import * as z from 'zod';
import type { InferenceEngine } from '../../engine/inference-engine.ts';
import { InvalidRequestError, NotFoundError } from '../../errors.ts';
import { replyJson } from '../../http/json-reply.ts';
import type { Client } from '../../util/client.ts';
import { preview } from '../../util/preview.ts';
import { zodMessage } from '../../util/zod-message.ts';
import { answerAdmitted } from '../admitted.ts';
import { countTokens } from '../chat/count-tokens.ts';
import { checkOwnFields, type FieldTables } from '../field-checks.ts';
import { parseBody } from '../parse-body.ts';
import type { ParsedRequest } from '../parsed-request.ts';
import { ignoredFields } from '../protocol/common-fields.ts';
import {
  type CreateResponseRequest,
  createResponseSchema,
  ignoredResponseFields,
  inputItemsQuery,
  inputTokensAnswer,
  MAX_ITEMS,
  unavailableResponseFields,
} from '../protocol/responses.ts';
import { proxiedAnswerId } from '../proxied-request.ts';
import { rethrowRenamed } from '../read-sampling.ts';
import { FIELD_NAMES, toChatRequest } from '../responses/chat-request.ts';
import { answerIdOf, type Item, readInput } from '../responses/items.ts';
import { memorySize } from '../responses/memory-size.ts';
import { type ResponseObject, responseFields } from '../responses/response-object.ts';
import type { StoredResponse } from '../responses/response-store.ts';
import { ResponsesWriter } from '../responses/responses-writer.ts';
import type { ServerContext } from '../server-context.ts';
import { prepareChat } from './chat-completions.ts';
import type { GenerationEndpoint } from './generation-route.ts';

const PREFIX = 'resp_';
const streamQuery = z.looseObject({ stream: z.string().optional() });
const TABLES: FieldTables = {
  served: createResponseSchema.shape,
  unavailable: unavailableResponseFields,
  ignored: ignoredResponseFields,
};

export const responses: GenerationEndpoint = {
  path: '/v1/responses',
  about: {
    summary: 'Answers a conversation of items',
    body: createResponseSchema,
    ignored: [...ignoredFields, ...ignoredResponseFields],
    streams: true,
  },
  parse,
};
const blame = rethrowRenamed(FIELD_NAMES);
const INPUT_TOKENS = {
  summary: 'The number of tokens that a conversation of items becomes',
  body: createResponseSchema,
  answer: inputTokensAnswer,
};

async function parse(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
  client: Client,
): Promise<ParsedRequest> {
  const body = storing(request, parseBody(createResponseSchema, request.body));
  checkOwnFields(context, request.body, TABLES);
  const owner = context.ownerOf(request);
  const input = readConversation(context, owner, body, request.id);
  const chat = toChatRequest(body, input);
  const asked = { body: chat, prefix: PREFIX, lengthField: 'max_output_tokens', client };
  const { answer, options, toolUse } = await prepareChat(context, engine, request, asked).catch(blame);
  const keep = (response: ResponseObject): void =>
    context.responses.put(owner, { response, input, numBytes: memorySize({ response, input }) });
  const writer = new ResponsesWriter({
    options,
    fields: responseFields(options.head, body, answer.prompts[0]!.params),
    answerId: options.head.id.slice(PREFIX.length),
    idLength: toolUse.idLength,
    onComplete: body.store ? keep : () => {},
  });
  return { ...answer, writer };
}

export function inputTokensRoute(app: FastifyInstance, context: ServerContext): void {
  app.post('/v1/responses/input_tokens', { config: { about: INPUT_TOKENS } }, (request, reply) =>
    answerAdmitted(context, request, reply, async ({ engine, client }) => {
      engine.expectGenerating();
      const body = storing(request, parseBody(createResponseSchema, request.body));
      checkOwnFields(context, request.body, TABLES);
      const input = readConversation(context, context.ownerOf(request), body, request.id);
      const chat = toChatRequest(body, input);
      const input_tokens = await countTokens(context, engine, chat, client).catch(blame);
      return { object: 'response.input_tokens', input_tokens };
    }),
  );
}

/**
 * Behind a proxy nothing is kept: the next request of the client may go to another instance.
 * @throws InvalidRequestError for a request there that goes on with an earlier response, or refers to its items.
 */
function storing(request: FastifyRequest, body: CreateResponseRequest): CreateResponseRequest {
  if (proxiedAnswerId(request.headers) === null) return { ...body, store: body.store ?? true };
  if (body.previous_response_id != null) {
    throw new InvalidRequestError(
      'previous_response_id is not served behind a proxy, where no responses are kept: send the whole conversation as input items',
      { param: 'previous_response_id' },
    );
  }
  if (typeof body.input !== 'string' && body.input.some(({ type }) => type === 'item_reference')) {
    throw new InvalidRequestError(
      'input has an item_reference, which is not served behind a proxy, where no responses are kept: send the items ' +
        'themselves, as clients do that are told store: false',
      { param: 'input' },
    );
  }
  return { ...body, store: false };
}

/**
 * The whole conversation, earlier responses included.
 * @throws NotFoundError or InvalidRequestError where it refers to what is not kept, or has too many items.
 */
function readConversation(
  context: ServerContext,
  owner: string,
  body: CreateResponseRequest,
  answerId: string,
): readonly Item[] {
  const earlier = earlierResponse(context, owner, body);
  const before: readonly Item[] = earlier === null ? [] : [...earlier.input, ...earlier.response.output];
  checkNumItems(before.length, body);
  return [...before, ...readItems(context, owner, body, answerId)];
}

function readItems(
  context: ServerContext,
  owner: string,
  { input }: CreateResponseRequest,
  answerId: string,
): readonly Item[] {
  const seen = new Set<string>();
  return readInput(input, answerId, (id) => {
    // Bounds what a small body can ask for, too.
    if (seen.has(id)) {
      throw new InvalidRequestError(`input refers to the item ${preview(id)} twice: leave one out`, {
        param: 'input',
      });
    }
    seen.add(id);
    return referencedItem(context, owner, id);
  });
}

/** @throws NotFoundError where it is not of a response that is kept, or that belongs to another key. */
function referencedItem(context: ServerContext, owner: string, id: string): Item {
  const stored = context.responses.get(owner, `${PREFIX}${answerIdOf(id)}`);
  const item = stored && [...stored.response.output, ...stored.input].find((one) => one.id === id);
  if (item) return item;
  throw new NotFoundError(
    `There is no item ${preview(id)}: its response was not stored, has been deleted, or was given up for later ones. ` +
      'Send the item itself, as clients do that are told store: false',
    { param: 'input' },
  );
}

/** @throws NotFoundError where the one that the request names is not kept, or belongs to another key. */
function earlierResponse(
  context: ServerContext,
  owner: string,
  { previous_response_id: id }: CreateResponseRequest,
): StoredResponse | null {
  return id == null ? null : storedResponse(context, owner, id, 'previous_response_id');
}

function storedResponse(context: ServerContext, owner: string, id: string, param: string): StoredResponse {
  const stored = context.responses.get(owner, id);
  if (stored !== null) return stored;
  throw new NotFoundError(
    `There is no response ${preview(id)}: it was not stored, has been deleted, or was given up for later ones`,
    { param },
  );
}

function checkNumItems(numBefore: number, { input }: CreateResponseRequest): void {
  const numItems = numBefore + (typeof input === 'string' ? 1 : input.length);
  if (numItems <= MAX_ITEMS) return;
  throw new InvalidRequestError(
    `A conversation may have at most ${MAX_ITEMS} items, earlier responses included, got ${numItems}`,
    { param: 'input' },
  );
}

interface ById {
  Params: { id: string };
}

/** What is kept of responses: to read, to delete, and what they were told. */
export function storedResponseRoutes(app: FastifyInstance, context: ServerContext): void {
  const find = (request: FastifyRequest<ById>): StoredResponse =>
    storedResponse(context, context.ownerOf(request), request.params.id, 'id');
  app.get<ById>(
    '/v1/responses/:id',
    { config: { about: { summary: 'A response that is kept' } } },
    async (request, reply) => {
      const { response } = find(request);
      const { stream } = readQuery(streamQuery, request.query);
      if (stream !== 'true') return replyJson(reply, response);
      throw new InvalidRequestError(
        'Only responses of background requests can be streamed again: leave stream out',
        {
          param: 'stream',
        },
      );
    },
  );
  app.delete<ById>(
    '/v1/responses/:id',
    { config: { about: { summary: 'Forgets a response' } } },
    async (request) => {
      const { id } = find(request).response;
      context.responses.delete(context.ownerOf(request), id);
      return { id, object: 'response', deleted: true };
    },
  );
  app.post<ById>(
    '/v1/responses/:id/cancel',
    { config: { about: { summary: 'Refused: responses that are kept are complete' } } },
    async (request) => {
      const { id } = find(request).response;
      throw new InvalidRequestError(
        `Response ${preview(id)} is complete: only background responses can be cancelled, which this server does not make; ` +
          'to stop a response that is being made, close its connection',
        { param: 'id' },
      );
    },
  );
  app.get<ById>(
    '/v1/responses/:id/input_items',
    { config: { about: { summary: 'What a response was told' } } },
    async (request, reply) => replyJson(reply, inputItems(find(request).input, request.query)),
  );
}

/** A page of the items, the latest first unless `order` says otherwise. */
function inputItems(input: readonly Item[], query: unknown): object {
  const { limit, order, after } = readQuery(inputItemsQuery, query);
  const ordered = order === 'asc' ? input : input.toReversed();
  const start = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  const data = ordered.slice(start, start + limit);
  const has_more = start + limit < ordered.length;
  return { object: 'list', data, first_id: data[0]?.id ?? '', last_id: data.at(-1)?.id ?? '', has_more };
}

/** @throws InvalidRequestError naming what is wrong with it: a name that is there twice is a list. */
function readQuery<T>(schema: z.ZodType<T>, query: unknown): T {
  const parsed = schema.safeParse(query);
  if (parsed.success) return parsed.data;
  const param = String(parsed.error.issues[0]?.path[0] ?? '') || undefined;
  throw new InvalidRequestError(zodMessage(parsed.error, query, 'The query'), { param });
}
