// The key that the proxy shows to instances: its own where it has checked those of its clients, else the client's.

import type { IncomingHttpHeaders } from 'node:http';
import type { Logger } from 'pino';
import { BadGatewayError } from '../errors.ts';
import { authorizationOf } from '../http/auth.ts';
import type { Instance } from './instance.ts';

const UNAUTHORIZED = 401;
const ADVICE = 'give the proxy one of the keys of its instances in OPENAI_API_KEY';

interface InstanceKeyOptions {
  /** The proxy has keys that its clients must show. */
  readonly checksClients: boolean;
  /** Undefined or empty where instances want none. */
  readonly key: string | undefined;
  readonly logger: Logger | undefined;
}

export class InstanceKey {
  readonly #options: InstanceKeyOptions;
  /** A person is told once of each run of an instance. */
  readonly #told = new WeakSet<Instance>();

  constructor(options: InstanceKeyOptions) {
    this.#options = options;
  }

  /** The header `authorization` of a request to an instance. */
  headerFor(headers: IncomingHttpHeaders): string | undefined {
    const { checksClients, key } = this.#options;
    return checksClients && key !== undefined && key !== '' ? `Bearer ${key}` : authorizationOf(headers);
  }

  /** Whether an answer of this status says that it is the proxy, and not its client, whom the instance does not let in. */
  isRefused(instance: Instance, status: number): boolean {
    const { checksClients, logger } = this.#options;
    if (status !== UNAUTHORIZED || !checksClients) return false;
    if (!this.#told.has(instance)) logger?.warn(`${described(instance)}: ${ADVICE}`);
    this.#told.add(instance);
    return true;
  }
}

export function keyRefused(instance: Instance): BadGatewayError {
  return new BadGatewayError(`${described(instance)}: whoever runs it has to ${ADVICE}`);
}

function described({ httpAddress }: Instance): string {
  return `The instance ${httpAddress} does not take the key of this proxy`;
}
