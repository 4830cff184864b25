// Variables for chat templates, which a client may set in every protocol that has conversations.

import * as z from 'zod';
import { atMost } from '../../util/bounded-schemas.ts';

const MAX_VARIABLES = 256;

export const templateVariables = atMost<Record<string, unknown>>(MAX_VARIABLES, 'variables').pipe(
  z.record(z.string(), z.unknown()),
);
