// The way to a hub: straight, or through the web proxy that the environment names.

import { type Dispatcher, EnvHttpProxyAgent } from 'undici';
import { ModelLoadError } from '../errors.ts';

/**
 * Honours HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and the same in small letters, which come first. Without the first the second
 * carries all.
 * @throws ModelLoadError where one of them is no address.
 */
export function connectionsOf(env: NodeJS.ProcessEnv): Dispatcher {
  const proxyOf = (name: string): string => {
    const address = env[name.toLowerCase()] || env[name] || '';
    if (address === '' || (/^https?:/.test(address) && URL.canParse(address))) return address;
    throw new ModelLoadError(
      `${name} must be the address of a web proxy, such as http://proxy:3128, it is ${address}`,
    );
  };
  const httpProxy = proxyOf('HTTP_PROXY');
  return new EnvHttpProxyAgent({
    httpProxy,
    httpsProxy: proxyOf('HTTPS_PROXY') || httpProxy,
    noProxy: env.no_proxy || env.NO_PROXY || '',
  });
}
