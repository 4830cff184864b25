// One signal for many: each prompt of a request or of a batch listens to it, where Node would warn of more than ten.

import { setMaxListeners } from 'node:events';

export function sharedAbortController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}
