// Turns the addon's complaints about arguments into the error class of all backends.

import { ShapeError } from '../../errors.ts';

/** The ShapeError that `error` describes, or `error` itself where it is of another kind. */
export function asShapeError(error: unknown): unknown {
  if (!(error instanceof RangeError)) return error;
  const { op, expected, got } = Object.fromEntries(Object.entries(error));
  const isArgumentError = [op, expected, got].every((text) => typeof text === 'string');
  return isArgumentError ? new ShapeError(String(op), String(expected), String(got)) : error;
}
