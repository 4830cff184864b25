// The lines of a batch file, checked one by one: what is wrong with a line is its own result and stops nothing.

import { createHash } from 'node:crypto';
import { createReadStream, statSync } from 'node:fs';
import { createInterface } from 'node:readline';
import * as z from 'zod';
import { ConfigError } from '../../errors.ts';
import { parseJson } from '../../util/parse-json.ts';
import { shortened } from '../../util/preview.ts';
import { zodMessage } from '../../util/zod-message.ts';

export interface BatchLine {
  /** In the file, from 1. */
  readonly number: number;
  /** Of the whole line: a line that was changed is another one. */
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
  body: z
    .record(z.string(), z.unknown())
    .refine(({ stream }) => stream == null || stream === false, { error: 'must not ask for a stream' }),
});
const named = z.looseObject({ custom_id: z.string() });

/**
 * Empty lines are left out.
 * @throws ConfigError where the file cannot be read.
 */
export async function* readBatch(path: string): AsyncGenerator<BatchLine> {
  expectFile(path);
  const lines = createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY });
  let number = 0;
  try {
    for await (const text of lines) {
      number += 1;
      if (text.trim() !== '') yield batchLine(text, number);
    }
  } catch (error) {
    throw new ConfigError(`--input-file ${path} cannot be read: ${errorText(error)}`, {
      param: 'input-file',
    });
  }
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

function batchLine(text: string, number: number): BatchLine {
  const digest = createHash('sha256').update(text).digest('base64url');
  const value = parseJson(text);
  const customId = named.safeParse(value).data?.custom_id ?? null;
  const parsed = lineSchema.safeParse(value);
  if (!parsed.success) {
    const why =
      value === undefined ? `${shortened(text)} is not JSON` : zodMessage(parsed.error, value, 'the request');
    return { number, digest, customId, request: null, fault: `line ${number}: ${why}` };
  }
  const { url, body } = parsed.data;
  return { number, digest, customId, request: { path: url, body: JSON.stringify(body) }, fault: null };
}

function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
