// What `svc serve` needs to know to start: plain data, made by merge.ts from flags, environment and config file.

import type { LogLevel } from '../observability/log.ts';
import type { CorsConfig } from './cors-options.ts';
import type { EngineConfig } from './engine-config.ts';

/** What clients call the model that svc brings along. */
export const BUNDLED_MODEL_NAME = 'svc-chat';

/** What options say of answers, whoever asks for them. */
export interface AnswerConfig {
  /** Names that requests may give; the first one is in the answers. */
  readonly servedModelNames: readonly [string, ...string[]];
  /** Usage tells how many tokens of the prompt came from the prefix cache. */
  readonly showsCachedTokens: boolean;
  /** Requests may bring chat templates of their own. */
  readonly trustsRequestTemplates: boolean;
  /** Variables of chat templates that a request does not set. */
  readonly defaultTemplateVariables: Readonly<Record<string, unknown>>;
  /** Who speaks the answers of chats. */
  readonly responseRole: string;
  /** Log-probabilities spell tokens as ids where a request does not say it. */
  readonly areTokensIds: boolean;
}

interface HttpConfig {
  /** Null listens on all interfaces. */
  readonly host: string | null;
  /** 0 takes a free port. */
  readonly port: number;
  /** Empty lets everybody in. */
  readonly apiKeys: readonly string[];
  readonly cors: CorsConfig;
  readonly logRequests: boolean;
  /** Of each prompt, in characters and token ids; null logs none of it. */
  readonly maxLoggedLength: number | null;
  /** A line of statistics every few seconds while there is work. */
  readonly logStats: boolean;
  readonly logsAccess: boolean;
  /** Lowest level of log lines about HTTP requests. */
  readonly logLevel: LogLevel;
  /** Optional prefix of every route: `/api`. */
  readonly rootPath: string | null;
  /** Collector that gets traces; null is none. */
  readonly tracesEndpoint: string | null;
  /** Serve the page at `/`. */
  readonly hasPage: boolean;
  /** Null is plain HTTP. */
  readonly tls: TlsConfig | null;
  /** Tokens of each event of a stream. */
  readonly streamInterval: number;
  /** Every stream tells its usage. */
  readonly alwaysTellsUsage: boolean;
  readonly showsTokenizer: boolean;
  readonly hidesDocs: boolean;
  /** How long a request may take; 0 is no limit. */
  readonly requestTimeoutSeconds: number;
}

/** The files of HTTPS, PEM. */
export interface TlsConfig {
  readonly certFile: string;
  readonly keyFile: string;
  readonly caFile: string | null;
  /** Only clients with a certificate of `caFile` may connect. */
  readonly needsClientCert: boolean;
}

export interface ServeConfig {
  /** The model as given: a folder or a name on the hub; null is the one that svc makes itself. */
  readonly model: string | null;
  readonly engine: EngineConfig;
  readonly answers: AnswerConfig;
  readonly http: HttpConfig;
  readonly logLevel: LogLevel;
  /** How long running requests may take to finish once the process is told to stop. */
  readonly shutdownTimeoutSeconds: number;
  /** What to tell the user about options that have no effect. */
  readonly notices: readonly string[];
}
