// Environment variables that are no options: read where they matter, listed here for the reference page.

interface EnvironmentVariable {
  readonly name: string;
  readonly help: string;
}

export const ENVIRONMENT: readonly EnvironmentVariable[] = [
  { name: 'SVC_USE_ALT_MODEL_HUB', help: 'true: download models from the alternative hub' },
  { name: 'SVC_ALT_MODEL_HUB_ENDPOINT', help: 'address of the alternative hub, for mirrors' },
  {
    name: 'SVC_SERVER_DEV_MODE',
    help: '1: adds routes for operators and tests, such as POST /reset_prefix_cache',
  },
  {
    name: 'SVC_HOST_IP',
    help: 'address that instances with --kv-transfer-config listen on and tell each other where kv_ip is not given; default 127.0.0.1',
  },
  { name: 'SVC_USE_V1', help: 'accepted and without effect: there is one engine' },
  {
    name: 'SVC_NATIVE_ADDON',
    help: 'file of another build of the native addon, such as one with sanitizers',
  },
  { name: 'HF_HOME', help: 'folder of downloaded models and of the token; default ~/.cache/huggingface' },
  { name: 'HF_HUB_CACHE', help: 'folder of downloaded models; default $HF_HOME/hub' },
  { name: 'HF_ENDPOINT', help: 'address of the hub, for mirrors' },
  { name: 'HF_TOKEN', help: 'token for gated and private models' },
  { name: 'HF_HUB_OFFLINE', help: '1: use only what is already downloaded' },
  { name: 'XDG_CACHE_HOME', help: 'folder of caches where HF_HOME is not set; default ~/.cache' },
];

/** Whether SVC_SERVER_DEV_MODE asks for the routes of operators and tests. */
export function isDevMode(env: NodeJS.ProcessEnv = process.env): boolean {
  return env.SVC_SERVER_DEV_MODE === '1';
}

/** Whether SVC_USE_ALT_MODEL_HUB asks for the alternative hub. */
export function usesAlternativeHub(env: NodeJS.ProcessEnv = process.env): boolean {
  return env.SVC_USE_ALT_MODEL_HUB?.toLowerCase() === 'true';
}
