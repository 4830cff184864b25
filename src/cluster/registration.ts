// Tells the proxy that this instance is there: at once when it serves, then every three seconds, and when it leaves. It
// needs no proxy to start: one that comes later, or comes back, is told within a second.

import { randomBytes } from 'node:crypto';
import { isIPv4 } from 'node:net';
import { Dealer } from 'zeromq';
import type { KvTransferConfig } from '../config/kv-transfer-config.ts';
import { wholeCharacters } from '../util/whole-characters.ts';
import { formatAddress } from './address.ts';
import { encodeRegistration, type InstanceLoad, type RegistrationMessage } from './discovery-message.ts';
import { type CurveKeys, clientOptions, curveKeys } from './zmq.ts';

const HEARTBEAT_MS = 3000;
const RECONNECT_MS = 250;
/** How long the goodbye may take to leave. */
const GOODBYE_MS = 500;

export interface Registered {
  /** The name under which the model is served. */
  readonly model: string;
  /** How busy the engine is; called at each heartbeat. */
  readonly load: () => Promise<InstanceLoad>;
  /** The proxy shows it with what it says of its clients. */
  readonly proxyToken?: string;
  /** Whether layers of the model keep states. */
  readonly keepsStates?: boolean;
  readonly warn?: (message: string) => void;
  /** Told when the proxy has let this instance in. */
  readonly inform?: (message: string) => void;
}

type Proxy = NonNullable<KvTransferConfig['proxy']>;

export class Registration {
  readonly #proxy: Proxy;
  readonly #keys: CurveKeys | null;
  readonly #about: Registered;
  readonly #message: RegistrationMessage;
  readonly #timer: NodeJS.Timeout;
  #socket: Dealer;
  #load: InstanceLoad | null = null;
  #state: 'ready' | 'draining' | 'gone' = 'ready';
  #isConnected = false;
  /** ZeroMQ gives a connection up for good where the other end keeps to another protocol, as without the secret. */
  #isGivenUp = false;
  /** Of the proxy that is not there, or lets nobody in; once until it is back. */
  #hasWarned = false;

  private constructor(config: KvTransferConfig, proxy: Proxy, about: Registered) {
    this.#proxy = proxy;
    this.#keys = curveKeys(config.secret);
    this.#about = about;
    this.#message = registrationOf(config, about);
    this.#refreshLoad();
    this.#socket = this.#connect();
    this.#timer = setInterval(() => this.#tick(), HEARTBEAT_MS).unref();
  }

  /** Null where the configuration names no proxy. */
  static start(config: KvTransferConfig, about: Registered): Registration | null {
    return config.proxy === null ? null : new Registration(config, config.proxy, about);
  }

  /** Asks for no new requests; those that run are finished. */
  drain(): void {
    if (this.#state !== 'ready') return;
    this.#state = 'draining';
    this.#beat();
  }

  /** Says goodbye; nothing is sent after it. */
  close(): void {
    if (this.#state === 'gone') return;
    this.#state = 'gone';
    clearInterval(this.#timer);
    this.#beat();
    this.#socket.close();
  }

  #connect(): Dealer {
    const socket = new Dealer({
      routingId: this.#message.zmq_address,
      ipv6: !isIPv4(this.#proxy.ip),
      linger: GOODBYE_MS,
      // Nothing is queued for a proxy that is not there: it is told the news when it comes.
      immediate: true,
      sendTimeout: 0,
      reconnectInterval: RECONNECT_MS,
      // A connection whose other end has silently vanished is made anew.
      heartbeatInterval: HEARTBEAT_MS,
      heartbeatTimeout: 2 * HEARTBEAT_MS,
      ...clientOptions(this.#keys),
    });
    socket.events.on('handshake', () => this.#connected());
    socket.events.on('disconnect', () => this.#disconnected());
    for (const event of ['handshake:error:protocol', 'handshake:error:auth'] as const) {
      socket.events.on(event, () => this.#refused({ isForGood: true }));
    }
    socket.events.on('handshake:error:other', () => this.#refused({ isForGood: false }));
    socket.connect(`tcp://${formatAddress(this.#proxy)}`);
    return socket;
  }

  #tick(): void {
    if (this.#isGivenUp) {
      this.#isGivenUp = false;
      this.#socket.close();
      this.#socket = this.#connect();
    } else if (!this.#isConnected) {
      const fields = 'proxy_ip and proxy_port must be --discovery-host and --discovery-port of svc proxy';
      this.#warnOnce(`no proxy answers yet at ${formatAddress(this.#proxy)}: looking for it (${fields})`);
    }
    this.#beat();
  }

  #beat(): void {
    const message = {
      ...this.#message,
      state: this.#state,
      ...(this.#load !== null && { load: this.#load }),
    };
    // A heartbeat that cannot leave now is lost: the next one follows.
    this.#socket.send(encodeRegistration(message)).catch(() => {});
    this.#refreshLoad();
  }

  /** For the next heartbeat: this one does not wait for a busy engine. */
  #refreshLoad(): void {
    this.#about.load().then(
      (load) => {
        this.#load = load;
      },
      // A dead engine ends the process by itself.
      () => {},
    );
  }

  #connected(): void {
    // What ZeroMQ tells of the connection may be heard after the goodbye.
    if (this.#state === 'gone') return;
    this.#isConnected = true;
    this.#hasWarned = false;
    this.#about.inform?.(`registered with the proxy at ${formatAddress(this.#proxy)}`);
    this.#beat();
  }

  #disconnected(): void {
    if (!this.#isConnected || this.#state === 'gone') return;
    this.#isConnected = false;
    this.#warnOnce(`the proxy at ${formatAddress(this.#proxy)} has gone: looking for it`);
  }

  #refused({ isForGood }: { readonly isForGood: boolean }): void {
    this.#isGivenUp ||= isForGood;
    this.#warnOnce(
      `the discovery port ${formatAddress(this.#proxy)} of the proxy does not let this instance in: is it the --discovery-port ` +
        'of svc proxy, and is --kv-transfer-secret the same at both?',
    );
  }

  #warnOnce(message: string): void {
    if (this.#hasWarned || this.#state === 'gone') return;
    this.#hasWarned = true;
    this.#about.warn?.(message);
  }
}

function registrationOf(
  config: KvTransferConfig,
  { model, proxyToken, keepsStates }: Registered,
): RegistrationMessage {
  const { ip, port, httpPort, role, sendType } = config;
  return {
    type: role === 'kv_consumer' ? 'D' : 'P',
    http_address: formatAddress({ ip, port: httpPort ?? 0 }),
    zmq_address: formatAddress({ ip, port }),
    epoch: randomBytes(8).toString('hex'),
    model: wholeCharacters(model, 512),
    ...(proxyToken !== undefined && { proxy_token: proxyToken }),
    role,
    send_type: sendType,
    ...(keepsStates !== undefined && { keeps_states: keepsStates }),
  };
}
