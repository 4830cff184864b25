// POST /tokenize: the token ids of a text, or of the prompt that a conversation becomes. POST /detokenize: the way back.
// GET /tokenizer_info: special tokens and chat template.

import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import type { InferenceEngine } from '../../engine/inference-engine.ts';
import { InvalidRequestError } from '../../errors.ts';
import { lazyList } from '../../http/json-pieces.ts';
import { replyJson } from '../../http/json-reply.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import type { Client } from '../../util/client.ts';
import { answerAdmitted } from '../admitted.ts';
import { promptOfChat } from '../chat/chat-prompt.ts';
import { checkChatFields } from '../chat/check-fields.ts';
import { tokensOf } from '../chat/count-tokens.ts';
import { blameTools } from '../chat/functions.ts';
import { parseBody } from '../parse-body.ts';
import {
  detokenizeAnswer,
  detokenizeSchema,
  tokenizeAnswer,
  tokenizeChatSchema,
  tokenizePromptSchema,
} from '../protocol/tokenize.ts';
import type { ServerContext } from '../server-context.ts';

const TOKENIZE = {
  summary: 'Token ids of a text, or of the prompt that a conversation becomes',
  body: z.union([tokenizePromptSchema, tokenizeChatSchema]),
  answer: tokenizeAnswer,
};
const DETOKENIZE = { summary: 'The text of token ids', body: detokenizeSchema, answer: detokenizeAnswer };

export function tokenizeRoutes(app: FastifyInstance, context: ServerContext): void {
  app.post('/tokenize', { config: { about: TOKENIZE } }, (request, reply) =>
    answerAdmitted(context, request, reply, async ({ engine, client }) => {
      const tokenizer = tokenizerOf(engine, '/tokenize');
      const asked = await promptOf(context, engine, request.body, client);
      const { prompt, addSpecialTokens, returnsTexts } = asked;
      const tokens = await tokensOf(engine, tokenizer, prompt, { addSpecialTokens, ...client });
      const answer = {
        count: tokens.length,
        max_model_len: engine.info.maxModelLen,
        tokens,
        token_strs: returnsTexts ? lazyList(tokens, (id) => tokenizer.describe(id).text) : null,
      };
      return replyJson(reply, answer);
    }),
  );
  app.post('/detokenize', { config: { about: DETOKENIZE } }, (request, reply) =>
    answerAdmitted(context, request, reply, async ({ engine }) => {
      const { model, tokens } = parseBody(detokenizeSchema, request.body);
      context.adapterOf(model, engine);
      const tokenizer = tokenizerOf(engine, '/detokenize');
      checkIds(tokens, tokenizer.vocabSize);
      return { prompt: await tokenizer.decode(tokens, { skipSpecialTokens: false }) };
    }),
  );
}

export function tokenizerInfoRoute(app: FastifyInstance, context: ServerContext): void {
  const about = { summary: 'Class and special tokens of the tokenizer, and the chat template' };
  app.get('/tokenizer_info', { config: { about } }, async () => {
    const { engine } = context;
    tokenizerOf(engine, '/tokenizer_info');
    return { ...engine.tokenizerInfo, chat_template: engine.chatTemplate?.source ?? null };
  });
}

async function promptOf(context: ServerContext, engine: InferenceEngine, body: unknown, client: Client) {
  if (typeof body === 'object' && body !== null && 'messages' in body) {
    const { return_token_strs, ...chat } = parseBody(tokenizeChatSchema, body);
    checkChatFields(context, engine, chat);
    const { prompt } = await promptOfChat(context, engine, chat, client).catch(blameTools(chat));
    return {
      prompt,
      addSpecialTokens: chat.add_special_tokens ?? false,
      returnsTexts: return_token_strs ?? false,
    };
  }
  const { model, prompt, add_special_tokens, return_token_strs } = parseBody(tokenizePromptSchema, body);
  context.adapterOf(model, engine);
  const returnsTexts = return_token_strs ?? false;
  return { prompt: { text: prompt }, addSpecialTokens: add_special_tokens ?? true, returnsTexts };
}

function tokenizerOf({ tokenizer }: InferenceEngine, path: string): Tokenizer {
  if (tokenizer !== null) return tokenizer;
  throw new InvalidRequestError(
    `${path} needs a tokenizer, and this server runs without one (--skip-tokenizer-init)`,
  );
}

function checkIds(tokens: readonly number[], vocabSize: number): void {
  const wrong = tokens.findIndex((id) => id >= vocabSize);
  if (wrong < 0) return;
  throw new InvalidRequestError(
    `tokens must be ids from 0 to ${vocabSize - 1}, got ${tokens[wrong]} at index ${wrong}`,
    { param: 'tokens' },
  );
}
