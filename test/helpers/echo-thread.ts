// A thread whose behaviour its callers choose.

import { InvalidRequestError } from '../../src/errors.ts';
import { type Result, serveCalls } from '../../src/util/call-thread.ts';

serveCalls((order: string): Result<string> => {
  if (order === 'refuse') throw new InvalidRequestError('no', { param: 'field' });
  if (order === 'break') throw new TypeError('a defect');
  if (order === 'hang') for (;;);
  if (order === 'die') process.exit(1);
  return { value: `${order}!` };
});
