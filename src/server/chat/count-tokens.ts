// The tokens that a conversation becomes, whatever protocol it came by.

import type { InferenceEngine, Prompt } from '../../engine/inference-engine.ts';
import { numKept } from '../../engine/input-processor.ts';
import { resolveSamplingParams } from '../../sampling/sampling-params.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import type { Client } from '../../util/client.ts';
import type { ChatCompletionRequest } from '../protocol/chat-completion.ts';
import { rethrowRenamed } from '../read-sampling.ts';
import type { ServerContext } from '../server-context.ts';
import { promptOfChat } from './chat-prompt.ts';

const blameMessages = rethrowRenamed({ prompt: 'messages' });

/**
 * As many as its answer would be told to have read. Prompts that are too long for the model are counted, too, but for those with images.
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
  const { prompt, tokenizer } = await promptOfChat(context, engine, body, client);
  const { length } = await tokensOf(engine, tokenizer, prompt, { addSpecialTokens: false, ...client });
  const { truncate_prompt_tokens = null, max_completion_tokens = null } = body;
  const limits = { truncate_prompt_tokens, max_tokens: max_completion_tokens };
  return Math.min(length, numKept(limits, engine.info.maxModelLen) ?? length);
}

/**
 * All tokens of a prompt. How many an image is, only the engine says, which takes no prompt that is too long.
 * @throws InvalidRequestError for a prompt with images that is too long, or with one that cannot be read; the reason of an abort.
 */
export async function tokensOf(
  engine: InferenceEngine,
  tokenizer: Tokenizer,
  prompt: Extract<Prompt, { readonly text: string }>,
  options: Client & { readonly addSpecialTokens: boolean },
): Promise<readonly number[]> {
  if (prompt.images === undefined) return tokenizer.encode(prompt.text, options);
  const { promptTokenIds } = await engine
    .prepare(prompt, resolveSamplingParams({}), options)
    .catch(blameMessages);
  return promptTokenIds;
}
