// Checks the fields of a chat that its prompt, or its answer, depends on.

import type { InferenceEngine } from '../../engine/inference-engine.ts';
import { checkCommonFields, type FieldTables } from '../field-checks.ts';
import {
  type ChatCompletionRequest,
  chatCompletionSchema,
  ignoredChatFields,
  unavailableChatFields,
} from '../protocol/chat-completion.ts';
import type { ServerContext } from '../server-context.ts';

const TABLES: FieldTables = {
  served: chatCompletionSchema.shape,
  unavailable: unavailableChatFields,
  ignored: ignoredChatFields,
};

/**
 * @returns the request without what asks for nothing.
 * @throws NotFoundError, NotAvailableError or InvalidRequestError for the first field that is refused.
 */
export function checkChatFields<T extends ChatCompletionRequest>(
  context: ServerContext,
  engine: InferenceEngine,
  given: T,
): T {
  const body = withoutIdleTools(given);
  checkCommonFields(context, engine, body, TABLES);
  return body;
}

/** Tools that must not be called ask for nothing. */
function withoutIdleTools<T extends ChatCompletionRequest>(body: T): T {
  return body.tool_choice === 'none' ? { ...body, tools: null } : body;
}
