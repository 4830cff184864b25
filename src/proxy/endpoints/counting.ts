// What counts the tokens of a conversation beside the endpoint that answers it: nothing is generated, one instance counts.

import type { EndpointAdapter } from './endpoint.ts';
import { NO_PROMPT } from './prompt.ts';

export function countingEndpoint(endpoint: EndpointAdapter, path: string): EndpointAdapter {
  return {
    ...endpoint,
    path,
    readRequest: (body) => ({
      ...endpoint.readRequest(body),
      isStream: false,
      // Whoever has counted it has not computed it.
      prompt: NO_PROMPT,
      addedFields: null,
      prefillFields: null,
    }),
  };
}
