// Threads of a test start from dist/ where that is what the sources make, as after `npm test` has built it.

import { isBuilt } from './svc-command.ts';

if (isBuilt()) process.env.SVC_TEST_BUILT_THREADS = '1';
