// The body of a client's request: its bytes, which go to instances as they came, and the little that the proxy must know
// of them. Everything else is for the instances to judge.

import { MalformedRequestError } from '../errors.ts';
import { parseJsonBody } from '../http/json-body.ts';
import type { EndpointAdapter, JsonObject, RequestTraits } from './endpoints/endpoint.ts';

export interface RequestBody extends RequestTraits {
  /** As the client sent it, with the fields that make every instance write the same answer. */
  readonly bytes: Buffer;
  readonly model: string | null;
  readonly requestId: string | null;
}

/** @throws MalformedRequestError where the body is no JSON object. */
export function readRequestBody(endpoint: EndpointAdapter, bytes: Buffer): RequestBody {
  const body = parseJsonBody(bytes);
  if (!isJsonObject(body)) throw new MalformedRequestError('The body must be a JSON object');
  const traits = endpoint.readRequest(body);
  return {
    ...traits,
    bytes: traits.addedFields === null ? bytes : withFields(bytes, traits.addedFields),
    model: typeof body.model === 'string' ? body.model : null,
    requestId: typeof body.request_id === 'string' ? body.request_id : null,
  };
}

const CLOSING = '}'.charCodeAt(0);
const QUOTE = '"'.charCodeAt(0);

/** Puts fields at the end of a JSON object, where they win over earlier ones; the rest keeps its bytes. */
export function withFields(bytes: Buffer, fields: JsonObject): Buffer {
  const end = bytes.lastIndexOf(CLOSING);
  // An object without fields has nothing but white space between its braces.
  const isEmpty = bytes.indexOf(QUOTE) < 0;
  const added = JSON.stringify(fields).slice(1);
  return Buffer.concat([bytes.subarray(0, end), Buffer.from(isEmpty ? added : `,${added}`)]);
}

function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
