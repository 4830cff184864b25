// The lines of a batch file, checked one by one: what is wrong with a line is its own result and stops nothing.

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { closeSync, openSync, statSync } from 'node:fs';
import * as z from 'zod';
import { ConfigError, messageOf } from '../../errors.ts';
import { textOfObjectField } from '../../util/exact-json.ts';
import { parseJson } from '../../util/parse-json.ts';
import { shortened } from '../../util/preview.ts';
import { zodMessage } from '../../util/zod-message.ts';
import { byteLines } from './byte-lines.ts';

export interface BatchLine {
  /** In the file, from 1. */
  readonly number: number;
  /** Of the whole line and its fault: a line that was changed is another one. */
  readonly digest: string;
  /** Null where the line has none. */
  readonly customId: string | null;
  readonly request: BatchRequest | null;
  /** Why there is no request; null where there is one. */
  readonly fault: string | null;
}

export interface BatchRequest {
  readonly path: string;
  /** JSON. */
  readonly body: string;
}

/** Paths that a batch may ask, all of them by POST. */
const PATHS: ReadonlySet<string> = new Set([
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/embeddings',
  '/rerank',
  '/v1/rerank',
  '/v2/rerank',
  '/score',
  '/v1/score',
]);

const lineSchema = z.object({
  custom_id: z.string().min(1),
  method: z.literal('POST'),
  url: z.string().refine((url) => PATHS.has(url), { error: `must be one of ${[...PATHS].join(', ')}` }),
  body: z.record(z.string(), z.unknown()).refine(({ stream }) => stream == null || stream === false, {
    path: ['stream'],
    error: 'must be false or left out: a batch has no streams',
  }),
});
const named = z.looseObject({ custom_id: z.string() });

/** What a line says, and what is wrong with it wherever it stands. */
type Content = Pick<BatchLine, 'customId' | 'request' | 'fault'>;

/** Which character was meant is not known, and an answer must not be to a text that nobody wrote. */
const NOT_UTF8: Content = {
  customId: null,
  request: null,
  fault: 'its bytes are not valid UTF-8: save the file in this encoding',
};

/**
 * Empty lines are left out.
 * @throws ConfigError where the file cannot be read.
 */
export function* readBatch(path: string): Generator<BatchLine, undefined> {
  expectFile(path);
  /** The first line of each custom_id. */
  const firstLines = new Map<string, number>();
  let number = 0;
  for (const bytes of linesOf(path)) {
    number += 1;
    const text = bytes.toString().trim();
    if (text === '') continue;
    const content = isUtf8(bytes) ? contentOf(text) : NOT_UTF8;
    const { customId } = content;
    const first = customId === null ? undefined : firstLines.get(customId);
    if (customId !== null && first === undefined) firstLines.set(customId, number);
    yield batchLine(text, first === undefined ? content : repeated(content, first), number);
  }
}

/** Of answers with one name, nobody could tell whose they are. */
function repeated({ customId }: Content, first: number): Content {
  const fault = `custom_id ${JSON.stringify(customId)} is that of line ${first}: give each line its own`;
  return { customId, request: null, fault };
}

/** What a pipe gives is gone when it has been looked through, and then nothing would be left to answer. */
function expectFile(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined || found.isFile()) return;
  const kind = found.isDirectory() ? 'folder' : 'pipe or device';
  throw new ConfigError(
    `--input-file ${path} must be a file, it is a ${kind}: write the requests to a file, which is read twice`,
    { param: 'input-file' },
  );
}

function* linesOf(path: string): Generator<Buffer, undefined> {
  let file: number | null = null;
  try {
    file = openSync(path, 'r');
    yield* byteLines(file);
  } catch (error) {
    throw new ConfigError(`--input-file ${path} cannot be read: ${messageOf(error)}`, {
      param: 'input-file',
    });
  } finally {
    if (file !== null) closeSync(file);
  }
}

function batchLine(text: string, { customId, request, fault: why }: Content, number: number): BatchLine {
  const fault = why === null ? null : `line ${number}: ${why}`;
  // The error of a wrong line tells its number: lines that are wrong in the same way have errors of their own.
  const digest = createHash('sha256')
    .update(text)
    .update(fault ?? '')
    .digest('base64url');
  return { number, digest, customId, request, fault };
}

function contentOf(text: string): Content {
  const value = parseJson(text);
  const customId = named.safeParse(value).data?.custom_id ?? null;
  const parsed = lineSchema.safeParse(value);
  if (!parsed.success) {
    const fault =
      value === undefined ? `${shortened(text)} is not JSON` : zodMessage(parsed.error, value, 'the request');
    return { customId, request: null, fault };
  }
  try {
    // As it was written: numbers would lose digits.
    const body = textOfObjectField(text, 'body') ?? '{}';
    return { customId, request: { path: parsed.data.url, body }, fault: null };
  } catch {
    // JSON is parsed to any depth, but walked only as deeply as the stack allows.
    return { customId, request: null, fault: 'body is nested too deeply' };
  }
}
