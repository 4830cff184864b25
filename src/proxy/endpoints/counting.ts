// What counts the tokens of a conversation beside the endpoint that answers it: nothing is generated, one instance counts.

import type { EndpointAdapter } from './endpoint.ts';

export function countingEndpoint(endpoint: EndpointAdapter, path: string): EndpointAdapter {
  return {
    ...endpoint,
    path,
    readRequest: (body) => ({
      ...endpoint.readRequest(body),
      isStream: false,
      addedFields: null,
      prefillFields: null,
    }),
  };
}
