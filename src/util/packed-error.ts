// Errors as plain data, for messages between threads: a structured clone would lose their classes.

import { ConfigError, ModelLoadError, NativeAddonError, NotAvailableError, SvcError } from '../errors.ts';

export interface PackedError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly param: string | null;
}

export function packError(error: unknown): PackedError {
  if (!(error instanceof Error))
    return { name: 'Error', message: String(error), stack: undefined, param: null };
  const param = error instanceof SvcError ? error.param : null;
  return { name: error.name, message: error.message, stack: error.stack, param };
}

const START_ERRORS = { ConfigError, ModelLoadError, NativeAddonError, NotAvailableError } as const;

/** The error with its class where it is one that a person can mend, else as it was thrown. */
export function unpackError(packed: PackedError): Error {
  const known = Object.entries(START_ERRORS).find(([name]) => name === packed.name)?.[1];
  const error =
    known === undefined
      ? new Error(packed.message)
      : new known(packed.message, { param: packed.param ?? undefined });
  if (packed.stack !== undefined) error.stack = packed.stack;
  return error;
}
