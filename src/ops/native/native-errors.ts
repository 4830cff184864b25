// Turns the addon's complaints into the error classes of all backends.

import {
  DeviceMemoryError,
  HostMemoryError,
  NotAvailableError,
  RanksBrokenError,
  ShapeError,
} from '../../errors.ts';

/** The error of our classes that `error` describes, or `error` itself where it is of another kind. */
export function asOpsError(error: unknown): unknown {
  if (isNotAvailable(error)) return new NotAvailableError(error.message, { cause: error });
  if (isOutOfMemory(error)) return new DeviceMemoryError(error.message, { cause: error });
  if (isOutOfHostMemory(error)) return new HostMemoryError(error.message, { cause: error });
  if (isRanksBroken(error)) return new RanksBrokenError(error.message, { cause: error });
  if (!(error instanceof RangeError)) return error;
  const { op, expected, got } = Object.fromEntries(Object.entries(error));
  const isArgumentError = [op, expected, got].every((text) => typeof text === 'string');
  return isArgumentError ? new ShapeError(String(op), String(expected), String(got)) : error;
}

/** Whether a backend says that it does not do something yet. */
function isNotAvailable(error: unknown): error is Error {
  return error instanceof Error && 'isNotAvailable' in error;
}

/** Whether a device has too little memory left. */
function isOutOfMemory(error: unknown): error is Error {
  return error instanceof Error && 'isOutOfMemory' in error;
}

function isOutOfHostMemory(error: unknown): error is Error {
  return error instanceof Error && 'isOutOfHostMemory' in error;
}

/** Whether an op of several ranks waited for one that will not come. */
function isRanksBroken(error: unknown): error is Error {
  return error instanceof Error && 'isRanksBroken' in error;
}
