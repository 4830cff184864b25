// Starts and talks to transfer-child.mjs.

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterEach } from 'vitest';
import { z } from 'zod';
import type { Gpu, Kind, Shape } from './transfer-node.ts';
import { until } from './until.ts';

export const ADDON =
  process.env.SVC_NATIVE_ADDON ?? fileURLToPath(new URL('../../native/build/svc.node', import.meta.url));
const CHILD = fileURLToPath(new URL('transfer-child.mjs', import.meta.url));

const Said = z.looseObject({
  type: z.string(),
  shm: z.string().optional(),
  tcp: z.string().optional(),
  'cuda-ipc': z.string().optional(),
  nccl: z.string().optional(),
});

type Command =
  | { readonly do: 'receive'; readonly count: number }
  | { readonly do: 'send'; readonly kind: Kind; readonly address: string; readonly count: number }
  | { readonly do: 'exit' | 'return' };

export class TransferProcess {
  readonly said: z.infer<typeof Said>[] = [];
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;

  private constructor(
    { layers, blocks, layerBlockBytes }: Shape,
    gpu: Gpu | undefined,
    env: NodeJS.ProcessEnv,
  ) {
    const device = gpu === undefined ? [] : [gpu.SVC_CUDA_DRIVER, gpu.SVC_CUDA_KERNELS, gpu.SVC_NCCL ?? ''];
    const args = [CHILD, ADDON, layers, blocks, layerBlockBytes, ...device].map(String);
    this.#child = spawn(process.execPath, args, {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, ...env },
    });
    this.#child.stdin.on('error', () => {});
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      this.said.push(Said.parse(JSON.parse(line)));
    });
  }

  /** @param gpu Its KV memory is that of this GPU. */
  static async start(shape: Shape, gpu?: Gpu, env: NodeJS.ProcessEnv = {}): Promise<TransferProcess> {
    const child = new TransferProcess(shape, gpu, env);
    await until(() => child.has('listening'));
    return child;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  address(kind: Kind): string {
    return this.said[0]?.[kind] ?? '';
  }

  has(type: string): boolean {
    return this.said.some((message) => message.type === type);
  }

  async obey(command: Command): Promise<void> {
    const numSaid = this.said.length;
    this.#child.stdin.write(`${JSON.stringify(command)}\n`);
    await until(() => this.said.slice(numSaid).some(({ type }) => type === 'done'));
  }

  order(command: Command): void {
    this.#child.stdin.write(`${JSON.stringify(command)}\n`);
  }

  /** Resolves when none of its threads runs any more. */
  async stop(): Promise<void> {
    this.signal('SIGSTOP');
    const tasks = `/proc/${this.pid}/task`;
    await until(() =>
      readdirSync(tasks).every((task) => /\) T /.test(readFileSync(`${tasks}/${task}/stat`, 'utf8'))),
    );
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** @returns the exit code, or the signal. */
  async ended(): Promise<number | string | null> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) await once(this.#child, 'exit');
    return this.#child.exitCode ?? this.#child.signalCode;
  }
}

/** Starts processes that are killed after each test of the file. */
export function transferProcesses(): (
  ...args: Parameters<typeof TransferProcess.start>
) => Promise<TransferProcess> {
  const started: TransferProcess[] = [];
  afterEach(async () => {
    for (const child of started.splice(0)) {
      child.signal('SIGKILL');
      await child.ended();
    }
  });
  return async (...args) => {
    const child = await TransferProcess.start(...args);
    started.push(child);
    return child;
  };
}
