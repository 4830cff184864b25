// What the proxy must know of a request: nothing else of the body is looked at, all of it is for the instance to judge.
// The routes make one of each body.

import { randomInt } from 'node:crypto';
import { MalformedRequestError } from '../errors.ts';
import { parseJsonBody } from '../http/json-body.ts';
import { type JobPath, type JsonObject, Prompt, type PromptShape } from './prompt.ts';

export interface Job {
  readonly path: JobPath;
  /** The body as the client sent it, with a seed where a second instance would otherwise draw another one. */
  readonly bytes: Buffer;
  readonly model: string | null;
  /** The id that the client chose in the body. */
  readonly requestId: string | null;
  readonly isStream: boolean;
  /** Choices that the answer has: prompts times samples. */
  readonly numChoices: number;
  readonly prompt: PromptShape;
  /** What a prefill instance gets in place of what the client asks. */
  readonly prefillFields: JsonObject;
  /** False: the decode instance has to compute the prompt itself. */
  readonly mayPrefillElsewhere: boolean;
  /** Another instance would write the same stream. */
  readonly isRepeatable: boolean;
}

/** Seeds are whole numbers that every client language can hold. */
const SEEDS = 2 ** 31;
/** What the protocol calls a request without a seed of its own. */
const NO_SEED = -1;

/** @throws MalformedRequestError where the body is no JSON object. */
export function readJob(path: JobPath, bytes: Buffer): Job {
  const body = parseJsonBody(bytes);
  if (!isJsonObject(body)) throw new MalformedRequestError('The body must be a JSON object');
  const prompt = new Prompt(path, body);
  const isRandom = body.temperature !== 0 && body.use_beam_search !== true;
  const hasSeed = body.seed != null && body.seed !== NO_SEED;
  // Prompts of one request would share a seed, and equal ones among them would get equal answers.
  const needsSeed = isRandom && !hasSeed && prompt.count === 1;
  return {
    path,
    bytes: needsSeed ? withFields(bytes, { seed: randomInt(SEEDS) }) : bytes,
    model: typeof body.model === 'string' ? body.model : null,
    requestId: typeof body.request_id === 'string' ? body.request_id : null,
    isStream: body.stream === true,
    numChoices: prompt.count * (typeof body.n === 'number' ? body.n : 1),
    prompt,
    prefillFields: prefillFields(body),
    mayPrefillElsewhere: mayPrefillElsewhere(body),
    isRepeatable: !isRandom || needsSeed || hasSeed,
  };
}

/** Who wants log-probabilities of the prompt, no token at all or beams needs the prompt computed where it is decoded. */
function mayPrefillElsewhere(body: JsonObject): boolean {
  if (body.prompt_logprobs != null || body.use_beam_search === true || body.max_tokens === 0) return false;
  return !(body.echo === true && body.logprobs != null);
}

/** Fields of which a prefill instance must not take the client's value; those of them that the client gave. */
const PREFILL_FIELDS: JsonObject = {
  max_completion_tokens: 1,
  min_tokens: 0,
  stream: false,
  stream_options: null,
  n: 1,
  best_of: null,
  echo: false,
  logprobs: null,
  top_logprobs: null,
};

function prefillFields(body: JsonObject): JsonObject {
  const changed = Object.entries(PREFILL_FIELDS).filter(([name]) => body[name] != null);
  return { max_tokens: 1, ...Object.fromEntries(changed) };
}

/** The body for the prefill instance: the same prompt, one token, nothing to report. */
export function prefillBody({ bytes, prefillFields }: Job): Buffer {
  return withFields(bytes, prefillFields);
}

/** The body for an instance that continues a stream: it writes all of it again, and what was sent is given. */
export function resumeBody(job: Job, resume: { created: number; choices: readonly number[][] }): Buffer {
  return withFields(job.bytes, { svc_resume: resume });
}

const CLOSING = '}'.charCodeAt(0);
const QUOTE = '"'.charCodeAt(0);

/** Puts fields at the end of a JSON object, where they win over earlier ones; the rest keeps its bytes. */
function withFields(bytes: Buffer, fields: JsonObject): Buffer {
  const end = bytes.lastIndexOf(CLOSING);
  // Between the braces of an object without fields is nothing but white space.
  const isEmpty = bytes.indexOf(QUOTE) < 0;
  const added = JSON.stringify(fields).slice(1);
  return Buffer.concat([bytes.subarray(0, end), Buffer.from(isEmpty ? added : `,${added}`)]);
}

function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
