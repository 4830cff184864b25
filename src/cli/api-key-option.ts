// The flag of commands that ask a server: the key that they show it.

import { Option } from 'commander';
import { headerSecret } from '../util/header-secret.ts';

const FLAG = '--api-key';
const VARIABLE = 'OPENAI_API_KEY';

export function apiKeyOption(): Option {
  return new Option(`${FLAG} <key>`, 'key for the server')
    .env(VARIABLE)
    .argParser((text) => headerSecret(`${FLAG} or ${VARIABLE}`, text))
    .default('EMPTY');
}
