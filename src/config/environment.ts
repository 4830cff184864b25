// Environment variables that are no options, those of servers; the addon, its kernels and tracing read their own.

import { ConfigError } from '../errors.ts';

const ON: readonly string[] = ['1', 'true', 'yes', 'on'];
const OFF: readonly string[] = ['', '0', 'false', 'no', 'off'];

/** A timer that is to wait for more than about twice this does not wait at all. */
const MOST_SECONDS = 1_000_000;

/** Whether SVC_SERVER_DEV_MODE asks for the routes of operators and tests. */
export function isDevMode(env: NodeJS.ProcessEnv = process.env): boolean {
  return isOn('SVC_SERVER_DEV_MODE', env);
}

/** Whether SVC_ALLOW_RUNTIME_LORA_UPDATING allows the routes that load and unload adapters. */
export function allowsAdapterUpdates(env: NodeJS.ProcessEnv = process.env): boolean {
  return isOn('SVC_ALLOW_RUNTIME_LORA_UPDATING', env);
}

/** Whether SVC_USE_ALT_MODEL_HUB asks for the alternative hub. */
export function usesAlternativeHub(env: NodeJS.ProcessEnv = process.env): boolean {
  return isOn('SVC_USE_ALT_MODEL_HUB', env);
}

/** Whether HF_HUB_OFFLINE keeps svc from asking a hub. */
export function isOffline(env: NodeJS.ProcessEnv = process.env): boolean {
  return isOn('HF_HUB_OFFLINE', env);
}

/** Seconds of HF_HUB_DOWNLOAD_TIMEOUT, null where it is not set. */
export function downloadTimeout(env: NodeJS.ProcessEnv = process.env): number | null {
  const { HF_HUB_DOWNLOAD_TIMEOUT: given } = env;
  if (!given) return null;
  const seconds = Number(given);
  if (seconds > 0 && seconds <= MOST_SECONDS) return seconds;
  throw wrong('HF_HUB_DOWNLOAD_TIMEOUT', `a number of seconds above 0 and up to ${MOST_SECONDS}`, given);
}

/**
 * Refuses an address that nothing can be asked at.
 * @param name the variable that gives it.
 */
export function expectAddress(name: string, address: string, example: string): void {
  if (/^https?:\/\//.test(address) && URL.canParse(address)) return;
  throw wrong(name, `a URL such as ${example}`, address);
}

/** The spellings that the hub's own tools take, and their opposites: a typing error is never silently off. */
function isOn(name: string, env: NodeJS.ProcessEnv): boolean {
  const given = env[name] ?? '';
  const value = given.toLowerCase();
  if (ON.includes(value)) return true;
  if (OFF.includes(value)) return false;
  throw wrong(name, '1 or 0, true or false, yes or no, on or off', given);
}

function wrong(name: string, expected: string, given: string): ConfigError {
  return new ConfigError(`${name}: expected ${expected}, got ${JSON.stringify(given)}`, { param: name });
}
