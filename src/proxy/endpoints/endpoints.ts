// The endpoints that are passed on to instances.

import { chatCompletions } from './chat-completions.ts';
import { completions } from './completions.ts';
import type { EndpointAdapter } from './endpoint.ts';

export const ENDPOINTS: readonly EndpointAdapter[] = [completions, chatCompletions];
