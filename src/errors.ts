// Every error that svc shows to a person: one class a kind, with the HTTP status and type that the protocol
// gives it. A message names what was wrong, where, what was expected and what to do.

/** Characters of a message about a file, and those at its ends that are left of a longer one. */
const MOST_SHOWN = 2000;
const SHOWN_ENDS = { first: 1000, last: 500 };

interface SvcErrorOptions {
  /** The request field or command-line option at fault, in the spelling the user typed. */
  readonly param?: string | undefined;
  readonly cause?: unknown;
}

/** Base of all errors of svc: `status` and `type` are those of an HTTP answer that carries it. */
export class SvcError extends Error {
  readonly status: number = 500;
  readonly type: string = 'InternalServerError';
  readonly param: string | null;

  constructor(message: string, options: SvcErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.param = options.param ?? null;
  }

  /** Whether clients may read the message: one of the server's own side may name files or addresses. */
  get isPublic(): boolean {
    return this.status !== 500;
  }
}

/** The message of whatever was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** A request that can never succeed as it stands: wrong type, range or combination. */
export class InvalidRequestError extends SvcError {
  override readonly status = 400;
  override readonly type = 'BadRequestError';
}

/** The body is not what the protocol calls a request: no JSON, no object, a field of the wrong type. */
export class MalformedRequestError extends SvcError {
  override readonly status = 400;
  override readonly type = 'Bad Request';
}

/** A field or option that the protocol knows and this version of svc does not serve yet. */
export class NotAvailableError extends SvcError {
  override readonly status = 400;
  override readonly type = 'BadRequestError';
}

/** An adapter cannot be loaded as things are: a name that is taken, no room, a missing field. */
export class AdapterError extends SvcError {
  override readonly status = 400;
  override readonly type = 'InvalidUserInput';
}

/** The bearer token is missing or is none of the configured keys. */
export class UnauthorizedError extends SvcError {
  override readonly status = 401;
  override readonly type = 'AuthenticationError';
}

/** The request names a model that this server does not serve. */
export class NotFoundError extends SvcError {
  override readonly status = 404;
  override readonly type = 'NotFoundError';
}

/** The path is none of this server's. */
export class UnknownPathError extends SvcError {
  override readonly status = 404;
  override readonly type = 'Not Found';
}

/** The path exists, the method does not. */
export class MethodNotAllowedError extends SvcError {
  override readonly status = 405;
  override readonly type = 'Method Not Allowed';
}

/** The request body is larger than the server accepts. */
export class PayloadTooLargeError extends SvcError {
  override readonly status = 413;
  override readonly type = 'BadRequestError';
}

/** The request expects what this server does not do. */
export class ExpectationError extends SvcError {
  override readonly status = 417;
  override readonly type = 'Expectation Failed';
}

/** The request may succeed in `retryAfter` seconds. */
class ComeAgainError extends SvcError {
  readonly retryAfter: number;

  constructor(message: string, options: SvcErrorOptions & { readonly retryAfter: number }) {
    super(message, options);
    this.retryAfter = options.retryAfter;
  }
}

/** The server has no room for one more request now. */
export class OverloadedError extends ComeAgainError {
  override readonly status = 429;
  override readonly type = 'OverloadedError';
}

/** An instance does not let the proxy in, or instances end: the proxy's clients can do nothing about that. */
export class BadGatewayError extends SvcError {
  override readonly status = 502;
  override readonly type = 'BadGatewayError';
}

/** The server is bound, its model is still being loaded. */
export class NotReadyError extends ComeAgainError {
  override readonly status = 503;
  override readonly type = 'ServiceUnavailableError';
}

/** The server is shutting down and takes no new requests. */
export class ShuttingDownError extends SvcError {
  override readonly status = 503;
  override readonly type = 'ServiceUnavailableError';
}

/** Whoever sent the request, or the proxy that did, wants no answer any more. */
export class CancelledError extends SvcError {
  override readonly status = 503;
  override readonly type = 'ServiceUnavailableError';
}

/** The request has taken longer than the server lets any request take. */
export class RequestTimeoutError extends SvcError {
  override readonly status = 504;
  override readonly type = 'RequestTimeoutError';
}

/** The model computed something that no token can be sampled from; other requests go on. */
export class ModelOutputError extends SvcError {
  override get isPublic(): boolean {
    return true;
  }
}

/** The engine thread has ended; nothing that it held will be answered. */
export class EngineDeadError extends SvcError {}

/** The engine does not come to the end of a step: its thread may never end, nor what waits for its device. */
export class EngineHangsError extends EngineDeadError {}

/** An option, environment variable or config-file key that is wrong or contradicts another. */
export class ConfigError extends SvcError {}

/** A model folder that cannot be served: names the file, the tensor and what was expected. */
export class ModelLoadError extends SvcError {
  constructor(message: string, options?: SvcErrorOptions) {
    super(withoutMiddle(message), options);
  }
}

/**
 * A file may give things names of any length: what is wrong with it is at the beginning of a message, what to do at its end. No
 * half of a character is left.
 */
function withoutMiddle(message: string): string {
  if (message.length <= MOST_SHOWN) return message;
  const first = message.slice(0, SHOWN_ENDS.first).replace(/[\ud800-\udbff]$/, '');
  const last = message.slice(-SHOWN_ENDS.last).replace(/^[\udc00-\udfff]/, '');
  return `${first}… ${last}`;
}

/** A device with memory of its own has too little left. */
export class DeviceMemoryError extends SvcError {}

/** This process may not take more of the machine's memory. */
export class HostMemoryError extends SvcError {}

/** Another rank of the model has ended, has not come or computes something else: none can go on. */
export class RanksBrokenError extends SvcError {}

/** The native addon is missing or does not load; the message says how to build it. */
export class NativeAddonError extends SvcError {}

/** An op was called with tensors that do not fit together: a defect of svc, never of the user. */
export class ShapeError extends SvcError {
  constructor(op: string, expected: string, got: string) {
    super(`${op}: expected ${expected}, got ${got}`);
  }
}
