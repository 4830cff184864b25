// Environment variables that are named almost as those of svc: a mistyped SVC_API_KEY would leave a server open without a word.

import { FOREIGN_VARIABLES } from './foreign-environment.ts';
import { SERVE_OPTIONS } from './options.ts';
import { nearestName } from './suggest.ts';

/** Of options, those of svc proxy included, and others. */
const KNOWN: ReadonlySet<string> = new Set([
  ...SERVE_OPTIONS.keys.flatMap((key) => SERVE_OPTIONS.info(key).env ?? []),
  'SVC_ALLOW_RUNTIME_LORA_UPDATING',
  'SVC_ALT_MODEL_HUB_ENDPOINT',
  'SVC_HOST_IP',
  'SVC_NATIVE_ADDON',
  'SVC_SERVER_DEV_MODE',
  'SVC_USE_ALT_MODEL_HUB',
]);

/** What Kubernetes sets in each container for a service that is called svc, or svc-something. */
const OF_SERVICES = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)$/;

/** A line for each variable that is set to something, begins with SVC_ and is nearly one of svc. */
export function mistypedVariables(env: NodeJS.ProcessEnv): string[] {
  const names = Object.keys(env).filter((name) => name.startsWith('SVC_') && env[name] && isNone(name));
  return names.flatMap((name) => {
    const meant = nearestName(name, KNOWN);
    return meant === null ? [] : [`there is no environment variable ${name}; did you mean ${meant}?`];
  });
}

/** Foreign ones are told of with what there is in their place. */
function isNone(name: string): boolean {
  return !(KNOWN.has(name) || FOREIGN_VARIABLES.has(name) || OF_SERVICES.test(name));
}
