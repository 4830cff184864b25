// What a test needs to see which memory is kept: a collection now.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

/** Frees all that nothing refers to. */
export const collectGarbage: () => void = runInNewContext('gc');
