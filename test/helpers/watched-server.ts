// A real server that tells for how long its main thread was held while a request was being answered.

import { fileURLToPath } from 'node:url';
import { type SvcProcess, startServeProcess } from './svc-process.ts';
import { until } from './until.ts';

export interface Watched {
  readonly status: number;
  /** Milliseconds for which the main thread was held at most. */
  readonly held: number;
}

export class WatchedServer {
  readonly #svc: SvcProcess;

  private constructor(svc: SvcProcess) {
    this.#svc = svc;
  }

  static async start(args: readonly string[]): Promise<WatchedServer> {
    const monitor = fileURLToPath(new URL('./loop-delay.mjs', import.meta.url));
    return new WatchedServer(await startServeProcess(args, { NODE_OPTIONS: `--import ${monitor}` }));
  }

  async ask(path: string, body: string): Promise<Watched> {
    const bytes = Buffer.from(body);
    await this.#longestHold();
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${this.#svc.url}${path}`, { method: 'POST', headers, body: bytes });
    await response.arrayBuffer();
    return { status: response.status, held: await this.#longestHold() };
  }

  stop(): Promise<number | null> {
    return this.#svc.stop();
  }

  /** Since the last time. */
  async #longestHold(): Promise<number> {
    const reports = (): string[] => this.#svc.stderr().match(/^held .+$/gm) ?? [];
    const numReports = reports().length;
    this.#svc.child.kill('SIGUSR2');
    await until(() => reports().length > numReports);
    return Number(reports().at(-1)?.slice('held '.length));
  }
}
