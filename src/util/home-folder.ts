// The home folder of the user.

import { homedir } from 'node:os';

/** Of a user whom the system does not know and who has no HOME it is the root folder, as container runtimes say in HOME. */
export function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return '/';
  }
}
