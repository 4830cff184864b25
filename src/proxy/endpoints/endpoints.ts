// The endpoints that are passed on to instances.

import { chatCompletions } from './chat-completions.ts';
import { completions } from './completions.ts';
import type { EndpointAdapter } from './endpoint.ts';
import { countTokens, messages } from './messages.ts';
import { inputTokens, responses } from './responses.ts';

export const ENDPOINTS: readonly EndpointAdapter[] = [
  completions,
  chatCompletions,
  responses,
  inputTokens,
  messages,
  countTokens,
];
