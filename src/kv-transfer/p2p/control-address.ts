// The address at which an instance listens for its peers; one that cannot be had is explained in words that name the
// field to change.

import { once } from 'node:events';
import { createServer } from 'node:net';
import { ConfigError } from '../../errors.ts';

interface ControlAddress {
  readonly ip: string;
  readonly port: number;
}

/**
 * Binds the address and leaves it at once, for whoever has much to do before the control channel listens there.
 * @throws ConfigError where the address cannot be had.
 */
export async function expectFreeControlAddress(address: ControlAddress): Promise<void> {
  const probe = createServer();
  try {
    await once(probe.listen({ host: address.ip, port: address.port }), 'listening');
  } catch (error) {
    throw controlAddressError(address, error);
  }
  await once(probe.close(), 'close');
}

export function controlAddressError({ ip, port }: ControlAddress, error: unknown): ConfigError {
  const code = error instanceof Error && 'code' in error ? error.code : String(error);
  const param = 'kv-transfer-config';
  if (code === 'EADDRINUSE') {
    return new ConfigError(`kv_port ${port} of ${ip} is taken: give this instance another kv_port`, {
      param,
    });
  }
  if (code === 'EADDRNOTAVAIL') {
    return new ConfigError(`kv_ip ${ip} is no address of this machine: give one that it has`, { param });
  }
  return new ConfigError(`kv_ip ${ip} and kv_port ${port} cannot be listened on: ${code}`, {
    param,
    cause: error,
  });
}
