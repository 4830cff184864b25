// Environment variables that are no options. scripts/options-page.ts lists them all.

/** Whether SVC_SERVER_DEV_MODE asks for the routes of operators and tests. */
export function isDevMode(env: NodeJS.ProcessEnv = process.env): boolean {
  return env.SVC_SERVER_DEV_MODE === '1';
}

/** Whether SVC_ALLOW_RUNTIME_LORA_UPDATING allows the routes that load and unload adapters. */
export function allowsAdapterUpdates(env: NodeJS.ProcessEnv = process.env): boolean {
  return ['1', 'true'].includes(env.SVC_ALLOW_RUNTIME_LORA_UPDATING?.toLowerCase() ?? '');
}

/** Whether SVC_USE_ALT_MODEL_HUB asks for the alternative hub. */
export function usesAlternativeHub(env: NodeJS.ProcessEnv = process.env): boolean {
  return env.SVC_USE_ALT_MODEL_HUB?.toLowerCase() === 'true';
}
