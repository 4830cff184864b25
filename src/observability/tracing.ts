// Spans of requests in the format of OpenTelemetry, sent to a collector. The packages that send them are optional: they
// are loaded where an address is given.

import type { Attributes, Context, Span, SpanKind, TimeInput } from '@opentelemetry/api';
import { ConfigError } from '../errors.ts';

/** Headers of W3C trace context. */
type Carrier = Readonly<Record<string, string | string[] | undefined>>;

interface Interval {
  /** Milliseconds by performance.now(). */
  readonly from: number;
  readonly to: number;
}

const PACKAGES = [
  '@opentelemetry/api',
  '@opentelemetry/core',
  '@opentelemetry/resources',
  '@opentelemetry/sdk-trace-base',
  '@opentelemetry/exporter-trace-otlp-http',
] as const;
const TRACES_PATH = '/v1/traces';
/** What is not sent by then is lost: the process ends. */
const SHUTDOWN_MS = 3000;

interface TracingOptions {
  /** Of a collector that takes OTLP over HTTP: `http://localhost:4318`, with or without /v1/traces. */
  readonly endpoint: string;
  /** Unless OTEL_SERVICE_NAME says otherwise. */
  readonly serviceName: string;
  readonly version: string;
}

export class Tracing {
  readonly #sdk: Sdk;
  readonly #tracer: ReturnType<Provider['getTracer']>;
  readonly #provider: Provider;

  private constructor(sdk: Sdk, provider: Provider, version: string) {
    this.#sdk = sdk;
    this.#provider = provider;
    this.#tracer = provider.getTracer('svc', version);
  }

  /** @throws ConfigError where the packages are missing, or the address is none. */
  static async start({ endpoint, serviceName, version }: TracingOptions): Promise<Tracing> {
    const url = tracesUrl(endpoint);
    const sdk = await loadSdk();
    const name = process.env.OTEL_SERVICE_NAME ?? serviceName;
    const provider = new sdk.BasicTracerProvider({
      resource: sdk.resourceFromAttributes({ 'service.name': name, 'service.version': version }),
      spanProcessors: [new sdk.BatchSpanProcessor(new sdk.OTLPTraceExporter({ url }))],
    });
    return new Tracing(sdk, provider, version);
  }

  /** A span of a request that came in, below the one that its `traceparent` names. */
  request(name: string, headers: Carrier): RequestSpan {
    const parent = this.#sdk.propagator.extract(
      this.#sdk.ROOT_CONTEXT,
      headers,
      this.#sdk.defaultTextMapGetter,
    );
    return this.#open(name, this.#sdk.SpanKind.SERVER, parent);
  }

  /** Sends what is left. */
  async stop(): Promise<void> {
    const late = new Promise<void>((resolve) => setTimeout(resolve, SHUTDOWN_MS).unref());
    await Promise.race([this.#provider.shutdown().catch(() => {}), late]);
  }

  #open(name: string, kind: SpanKind, parent: Context, startTime?: TimeInput): RequestSpan {
    const span = this.#tracer.startSpan(
      name,
      { kind, ...(startTime !== undefined && { startTime }) },
      parent,
    );
    const context = this.#sdk.trace.setSpan(parent, span);
    return new RequestSpan(span, {
      call: (child) => this.#open(child, this.#sdk.SpanKind.CLIENT, context),
      phase: (child, { from, to }, attributes) => {
        const startTime = performance.timeOrigin + from;
        const phase = this.#tracer.startSpan(child, { startTime, attributes }, context);
        phase.end(performance.timeOrigin + to);
      },
      headers: () => {
        const carrier: Record<string, string> = {};
        this.#sdk.propagator.inject(context, carrier, this.#sdk.defaultTextMapSetter);
        return carrier;
      },
      failed: this.#sdk.SpanStatusCode.ERROR,
    });
  }
}

interface Below {
  call(name: string): RequestSpan;
  phase(name: string, interval: Interval, attributes: Attributes): void;
  headers(): Record<string, string>;
  readonly failed: number;
}

/** An open span. */
export class RequestSpan {
  readonly #span: Span;
  readonly #below: Below;

  constructor(span: Span, below: Below) {
    this.#span = span;
    this.#below = below;
  }

  /** Opens a span for a request to another server. */
  call(name: string): RequestSpan {
    return this.#below.call(name);
  }

  /** Records something that is over. */
  phase(name: string, interval: Interval, attributes: Attributes = {}): void {
    this.#below.phase(name, interval, attributes);
  }

  /** For a request to another server whose spans are to be below this one. */
  headers(): Record<string, string> {
    return this.#below.headers();
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  /** @param error null where all went well. */
  end(error: Error | null = null): void {
    if (error !== null) this.#span.setStatus({ code: this.#below.failed, message: error.message });
    this.#span.end();
  }
}

type Sdk = Awaited<ReturnType<typeof importSdk>>;
type Provider = InstanceType<Sdk['BasicTracerProvider']>;

async function importSdk() {
  const [api, resources, sdk, exporter, core] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/sdk-trace-base'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/core'),
  ]);
  return { ...api, ...resources, ...sdk, ...exporter, propagator: new core.W3CTraceContextPropagator() };
}

async function loadSdk(): Promise<Sdk> {
  return importSdk().catch((error) => {
    throw new ConfigError(
      `--otlp-traces-endpoint needs packages that are not installed: npm install ${PACKAGES.join(' ')} (${error.message})`,
      { param: 'otlp-traces-endpoint' },
    );
  });
}

function tracesUrl(endpoint: string): string {
  const isUrl = URL.canParse(endpoint) && /^https?:$/.test(new URL(endpoint).protocol);
  if (!isUrl) {
    throw new ConfigError(
      `--otlp-traces-endpoint ${endpoint}: expected the address of a collector that takes OTLP over HTTP, such as http://localhost:4318`,
      { param: 'otlp-traces-endpoint' },
    );
  }
  const url = new URL(endpoint);
  if (url.pathname === '/') url.pathname = TRACES_PATH;
  return url.href;
}
