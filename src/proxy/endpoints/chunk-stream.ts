// The event streams of the generation endpoints: chunks as `data:` lines, ended by `data: [DONE]`. An error is an event
// before that one.

import * as z from 'zod';
import { errorBody } from '../../http/errors.ts';
import { parseJson } from '../../util/parse-json.ts';
import type { EndpointAdapter } from './endpoint.ts';
import { startsWith } from './event-bytes.ts';

const DATA = 'data: ';
const DONE = Buffer.from('data: [DONE]');
const ERROR = Buffer.from('data: {"error"');

const errorEvent = z.object({ error: z.object({ code: z.int() }) });

export const chunkStream: Omit<EndpointAdapter, 'path' | 'readRequest'> = {
  /** The instance writes the whole stream again, with these tokens as if it had just sampled them. */
  resumeFields(progress, numChoices) {
    const { created } = progress;
    return created === null ? null : { svc_resume: { created, choices: progress.tokenIds(numChoices) } };
  },

  isLastEvent: (event) => startsWith(event, DONE),

  errorStatus(event) {
    if (!startsWith(event, ERROR)) return null;
    const parsed = errorEvent.safeParse(parseJson(event.toString('utf8', DATA.length)));
    return parsed.success ? parsed.data.error.code : 0;
  },

  createdAt(event) {
    const digits = /"created":\s*(\d{1,15})/.exec(event.toString('latin1'))?.[1];
    return digits === undefined ? null : Number(digits);
  },

  failure: (error) => `${DATA}${JSON.stringify(errorBody(error))}\n\n${DATA}[DONE]\n\n`,
};
