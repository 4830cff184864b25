// Which pages of other origins may call from a browser (CORS): options that svc serve and svc proxy have in common.

import { flag, matching } from './option-kinds.ts';
import { option } from './option-table.ts';

export interface CorsConfig {
  /** `*` is every origin. */
  readonly origins: readonly string[];
  /** `*` is every method that there is. */
  readonly methods: readonly string[];
  /** `*` is every header that a page asks for. */
  readonly headers: readonly string[];
  readonly allowsCredentials: boolean;
}

/** Keys guard the routes: a caller with a key may call from any origin. */
export const CORS_DEFAULTS: CorsConfig = {
  origins: ['*'],
  methods: ['*'],
  headers: ['*'],
  allowsCredentials: false,
};

const ORIGIN = /^(\*|null|[a-z][a-z0-9+.-]*:\/\/[^\s/?#*]+)$/i;
const TOKEN = /^(\*|[\w!#$%&'+.^`|~-]+)$/;

/** Rows of a table. */
export function corsOptions() {
  return {
    allowedOrigins: option<readonly string[]>(
      matching('<origin...>', ORIGIN, 'origins such as https://example.com, without a path, or *'),
      CORS_DEFAULTS.origins,
      { help: 'origins whose pages may call from a browser: several values, or a JSON list' },
    ),
    allowedMethods: option<readonly string[]>(
      matching('<method...>', TOKEN, 'names of methods such as POST, or *'),
      CORS_DEFAULTS.methods,
      { help: 'methods that such pages may use: several values, or a JSON list' },
    ),
    allowedHeaders: option<readonly string[]>(
      matching('<header...>', TOKEN, 'names of headers such as Authorization, or *'),
      CORS_DEFAULTS.headers,
      { help: 'headers that such pages may send: several values, or a JSON list' },
    ),
    allowCredentials: option(flag(), CORS_DEFAULTS.allowsCredentials, {
      help: 'lets browsers send cookies and other credentials of their own with such calls',
    }),
  };
}

interface CorsValues {
  readonly allowedOrigins: readonly string[];
  readonly allowedMethods: readonly string[];
  readonly allowedHeaders: readonly string[];
  readonly allowCredentials: boolean;
}

export function corsConfig(values: CorsValues): CorsConfig {
  return {
    // Browsers write them so.
    origins: values.allowedOrigins.map((origin) => origin.toLowerCase()),
    methods: values.allowedMethods.map((method) => method.toUpperCase()),
    headers: values.allowedHeaders,
    allowsCredentials: values.allowCredentials,
  };
}
