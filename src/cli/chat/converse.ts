// The loop of svc chat and svc complete: a message, its answer, until the messages end; or one message only.

import { SvcError } from '../../errors.ts';
import type { AnswerPart } from '../api-client.ts';
import { openSource, type SourceOptions } from './message-source.ts';
import type { Output } from './output.ts';

/** What an answer came to, or how far it came before it was broken off. */
export interface AnswerEnd {
  readonly text: string;
  readonly isCutOff: boolean;
  readonly numTokens: number | null;
}

interface Talk extends SourceOptions {
  readonly greeting: string;
  /** Answers a message, or does what it commands. @returns false when it was the last. */
  respond(message: string, signal: AbortSignal): Promise<boolean>;
}

/** @returns the exit code: 1 where a message of a pipe was not answered. */
export async function converse(talk: Talk, output: Output): Promise<number> {
  const source = openSource(output, talk);
  let exitCode = 0;
  try {
    if (source.isPerson) output.note(talk.greeting);
    for (let goesOn = true; goesOn; ) {
      const message = await source.next();
      if (message === null) break;
      await source
        .interruptible(async (signal) => {
          goesOn = await talk.respond(message, signal);
        })
        .catch((error: unknown) => {
          if (!(error instanceof SvcError)) throw error;
          output.error(error.message);
          if (!source.isPerson) exitCode = 1;
        });
      // The eye finds the next prompt.
      if (goesOn && source.isPerson) process.stderr.write('\n');
    }
  } finally {
    source.close();
  }
  return exitCode;
}

/** Writes an answer piece by piece. @throws ApiError where it breaks off, after the pieces before have been written. */
export async function writeAnswer(
  parts: AsyncIterable<AnswerPart>,
  output: Output,
  signal: AbortSignal,
): Promise<AnswerEnd> {
  const writer = output.answer();
  let end: AnswerEnd = { text: '', isCutOff: false, numTokens: null };
  let hasBegun = false;
  try {
    for await (const { text, isCutOff, numTokens } of parts) {
      hasBegun = true;
      end = {
        text: end.text + text,
        isCutOff: end.isCutOff || isCutOff,
        numTokens: numTokens ?? end.numTokens,
      };
      writer.write(text);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    if (hasBegun || signal.aborted) writer.end();
  }
  if (signal.aborted) output.aside('(stopped)');
  return end;
}
