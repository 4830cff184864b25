// Counts the tokens that a conversation becomes, whatever protocol it came by.

import type { InferenceEngine } from '../../engine/inference-engine.ts';
import { numKept } from '../../engine/input-processor.ts';
import type { Client } from '../../util/client.ts';
import type { ChatCompletionRequest } from '../protocol/chat-completion.ts';
import type { ServerContext } from '../server-context.ts';
import { promptOfChat } from './chat-prompt.ts';

/**
 * As many as its answer would be told to have read. Prompts that are too long for the model are counted, too.
 * @throws NotFoundError or InvalidRequestError where the request could not be answered, naming the fields of chat completions; the
 * reason of an abort.
 */
export async function countTokens(
  context: ServerContext,
  engine: InferenceEngine,
  body: ChatCompletionRequest,
  client: Client,
): Promise<number> {
  context.adapterOf(body.model, engine);
  const { text, tokenizer } = await promptOfChat(context, engine, body, client);
  const { length } = await tokenizer.encode(text, { addSpecialTokens: false, ...client });
  const { truncate_prompt_tokens = null, max_completion_tokens = null } = body;
  const limits = { truncate_prompt_tokens, max_tokens: max_completion_tokens };
  return Math.min(length, numKept(limits, engine.info.maxModelLen) ?? length);
}
