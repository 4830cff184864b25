// POST /v1/messages and /v1/messages/count_tokens: a conversation in blocks through the model's template, answered once or
// only counted.

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { InferenceEngine } from '../../engine/inference-engine.ts';
import type { Client } from '../../util/client.ts';
import { answerAdmitted } from '../admitted.ts';
import { countTokens } from '../chat/count-tokens.ts';
import { checkOwnFields, type FieldTables } from '../field-checks.ts';
import { FIELD_NAMES, toChatRequest } from '../messages/chat-request.ts';
import { MessagesWriter } from '../messages/messages-writer.ts';
import { parseBody } from '../parse-body.ts';
import type { ParsedRequest } from '../parsed-request.ts';
import {
  countTokensAnswer,
  countTokensSchema,
  createMessageSchema,
  ignoredMessageFields,
  unavailableMessageFields,
} from '../protocol/messages.ts';
import { rethrowRenamed } from '../read-sampling.ts';
import type { ServerContext } from '../server-context.ts';
import { prepareChat } from './chat-completions.ts';
import type { GenerationEndpoint } from './generation-route.ts';

const TABLES: FieldTables = {
  served: createMessageSchema.shape,
  unavailable: unavailableMessageFields,
  ignored: ignoredMessageFields,
};

export const messages: GenerationEndpoint = {
  path: '/v1/messages',
  about: {
    summary: 'Answers a conversation of blocks',
    body: createMessageSchema,
    ignored: ignoredMessageFields,
    streams: true,
  },
  parse,
};
const blame = rethrowRenamed(FIELD_NAMES);
const COUNT_TOKENS = {
  summary: 'The number of tokens that a conversation of blocks becomes',
  body: countTokensSchema,
  answer: countTokensAnswer,
};

async function parse(
  context: ServerContext,
  engine: InferenceEngine,
  request: FastifyRequest,
  client: Client,
): Promise<ParsedRequest> {
  const body = parseBody(createMessageSchema, request.body);
  checkOwnFields(context, request.body, TABLES);
  const asked = { body: toChatRequest(body), prefix: 'msg_', lengthField: 'max_tokens', client };
  const { answer, options, toolUse } = await prepareChat(context, engine, request, asked).catch(blame);
  const showsThinking = body.thinking?.type !== 'disabled';
  const writer = new MessagesWriter({ options, idLength: toolUse.idLength, showsThinking });
  return { ...answer, writer };
}

export function countTokensRoute(app: FastifyInstance, context: ServerContext): void {
  app.post('/v1/messages/count_tokens', { config: { about: COUNT_TOKENS } }, (request, reply) =>
    answerAdmitted(context, request, reply, async ({ engine, client }) => {
      engine.expectGenerating();
      const body = parseBody(countTokensSchema, request.body);
      checkOwnFields(context, request.body, TABLES);
      return { input_tokens: await countTokens(context, engine, toChatRequest(body), client).catch(blame) };
    }),
  );
}
