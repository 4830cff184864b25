// The discovery port, where instances say that they are there: a ZeroMQ ROUTER. A message is the identity of its sender,
// which is its control address, and one msgpack map. Nothing is answered.

import { isIPv6 } from 'node:net';
import { Router } from 'zeromq';
import {
  MAX_REGISTRATION_BYTES,
  type RegistrationMessage,
  readRegistration,
} from '../cluster/discovery-message.ts';
import { curveKeys, serverOptions } from '../cluster/zmq.ts';
import { ConfigError, messageOf } from '../errors.ts';
import { urlHost } from '../util/url-host.ts';

interface DiscoveryOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly secret: string | null;
  readonly registered: (message: RegistrationMessage) => void;
  readonly refused: (why: string) => void;
}

const WITHOUT_SECRET =
  'an instance has another SVC_KV_TRANSFER_SECRET than the proxy, or one of both has none';

export class Discovery {
  readonly #socket: Router;
  readonly #options: DiscoveryOptions;

  private constructor(socket: Router, options: DiscoveryOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.events.on('handshake:error:protocol', () => options.refused(WITHOUT_SECRET));
    socket.events.on('handshake:error:auth', () => options.refused(WITHOUT_SECRET));
    void this.#listen();
  }

  /** @throws ConfigError where the port cannot be had. */
  static async open(options: DiscoveryOptions): Promise<Discovery> {
    const { host, port, secret } = options;
    const socket = new Router({
      linger: 0,
      ipv6: isIPv6(host),
      maxMessageSize: MAX_REGISTRATION_BYTES,
      // An instance that comes back is heard at once, even while its old connection seems to be open.
      handover: true,
      ...serverOptions(curveKeys(secret)),
    });
    try {
      await socket.bind(`tcp://${urlHost(host)}:${port === 0 ? '*' : port}`);
    } catch (cause) {
      socket.close();
      throw bindError(options, cause);
    }
    return new Discovery(socket, options);
  }

  /** `127.0.0.1:30001` */
  get address(): string {
    return (this.#socket.lastEndpoint ?? '').replace('tcp://', '');
  }

  close(): void {
    this.#socket.close();
  }

  async #listen(): Promise<void> {
    try {
      for await (const frames of this.#socket) this.#read(frames);
    } catch {
      // The socket was closed while it waited.
    }
  }

  /** Whatever one message does, the next one is heard. */
  #read(frames: readonly Buffer[]): void {
    const { registered, refused } = this.#options;
    try {
      const read = readFrames(frames);
      if (read.isValid) registered(read.message);
      else refused(read.why);
    } catch (error) {
      refused(messageOf(error));
    }
  }
}

function bindError({ host, port }: DiscoveryOptions, cause: unknown): ConfigError {
  const code = cause instanceof Error && 'code' in cause ? cause.code : null;
  if (code === 'EADDRNOTAVAIL') {
    return new ConfigError(`this machine has no address ${host}: choose another --discovery-host`, {
      param: 'discovery-host',
      cause,
    });
  }
  const fix =
    code === 'EACCES'
      ? 'choose a --discovery-port above 1023'
      : 'stop the program that uses it or choose another --discovery-port';
  return new ConfigError(
    `the discovery port ${port} cannot be bound on ${host}: ${fix} (${messageOf(cause)})`,
    { param: 'discovery-port', cause },
  );
}

function readFrames(frames: readonly Buffer[]): ReturnType<typeof readRegistration> {
  const [identity, payload] = frames;
  if (identity === undefined || payload === undefined || frames.length !== 2) {
    return { isValid: false, why: `expected 2 frames, got ${frames.length}` };
  }
  const read = readRegistration(payload);
  const isOwn = !read.isValid || read.message.zmq_address === identity.toString();
  return isOwn ? read : { isValid: false, why: 'zmq_address: differs from the identity of the socket' };
}
