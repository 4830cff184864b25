// Entry of the thread that compiles constraints, one after the other.

import { compile } from '../../structured-output/compile.ts';
import type { Constraint } from '../../structured-output/constraint.ts';
import { serveCalls } from '../../util/call-thread.ts';
import { packShared } from '../../util/shared-value.ts';

serveCalls((constraint: Constraint) => ({ value: packShared(compile(constraint)) }));
