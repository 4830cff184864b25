// The words of a program: messages are written for the command line, and what is --max-num-seqs there is maxNumSeqs to new LLM().

import {
  AdapterError,
  ConfigError,
  InvalidRequestError,
  MalformedRequestError,
  ModelLoadError,
  ModelOutputError,
  NotAvailableError,
  SvcError,
} from '../errors.ts';
import { type OptionKey, SERVE_OPTIONS } from './options.ts';

export const LLM_KEYS: readonly OptionKey[] = SERVE_OPTIONS.keys.filter(
  (key) => key === 'model' || SERVE_OPTIONS.info(key).isEngineOption === true,
);

const FLAG = /(?<![\w-])--([a-z][a-z0-9-]*)/g;

/** Errors that may name an option or one of several prompts. */
const KINDS = [
  AdapterError,
  ConfigError,
  InvalidRequestError,
  ModelLoadError,
  ModelOutputError,
  NotAvailableError,
] as const;

/** `--max-num-seqs 0` as `maxNumSeqs 0`; a flag of which a program has no option stays as it is. */
export function inProgramWords(text: string): string {
  return text.replace(FLAG, (flag: string, name: string) => programKey(name) ?? flag);
}

/**
 * What `work` gives.
 * @throws what it throws, in the words of a program.
 */
export function speakingToProgram<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw programError(error);
  }
}

/**
 * An error of the same class that names options as a program does.
 * @param place what its message begins with.
 */
export function programError(error: unknown, place = ''): unknown {
  const Kind = kindOf(error);
  if (Kind === null || !(error instanceof SvcError)) return error;
  const param = error.param === null ? undefined : (programKey(error.param) ?? error.param);
  return new Kind(`${place}${inProgramWords(error.message)}`, { param, cause: error.cause });
}

function kindOf(error: unknown): (typeof KINDS)[number] | null {
  // Which of both a wrong field is concerns the status of an answer only.
  if (error instanceof MalformedRequestError) return InvalidRequestError;
  return KINDS.find((kind) => error instanceof kind) ?? null;
}

function programKey(name: string): OptionKey | null {
  const key = SERVE_OPTIONS.find(name);
  return key !== null && LLM_KEYS.includes(key) ? key : null;
}
