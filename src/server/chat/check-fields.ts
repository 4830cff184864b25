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

/** @throws NotFoundError, NotAvailableError or InvalidRequestError for the first field that is refused. */
export function checkChatFields(
  context: ServerContext,
  engine: InferenceEngine,
  body: ChatCompletionRequest,
): void {
  checkCommonFields(context, engine, body, TABLES);
}
