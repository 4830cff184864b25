// Which kernels this process has launched on the emulated GPU: one whose sizes no test has would run for the first time where it is served.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const names = fileURLToPath(new URL('../../native/src/cuda/kernels.cc', import.meta.url));

export class LaunchedKernels {
  private readonly folder = mkdtempSync(join(os.tmpdir(), 'svc-launched-'));
  private readonly log = join(this.folder, 'names');

  /** Those that are launched from now on count. */
  constructor() {
    writeFileSync(this.log, '');
    process.env.SVC_EMULATED_LAUNCHES = this.log;
  }

  /** Of all kernels with such a name, those that were not launched. @throws Error where there is none with such a name. */
  lacking(pattern: RegExp): string[] {
    const launched = new Set(readFileSync(this.log, 'utf8').split('\n'));
    const all = readFileSync(names, 'utf8').match(/(?<=")svc[A-Z]\w+(?=")/g) ?? [];
    const asked = all.filter((name) => pattern.test(name));
    if (asked.length === 0) throw new Error(`no kernel is called ${pattern}`);
    return asked.filter((name) => !launched.has(name));
  }

  remove(): void {
    delete process.env.SVC_EMULATED_LAUNCHES;
    rmSync(this.folder, { recursive: true });
  }
}
