// bench/RESULTS.md: the newest figures of each section, with the command and the machine; older ones are in git.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';

const FILE = 'bench/RESULTS.md';

/** What a command printed: Markdown, each part under a heading of its own. */
export interface Printed {
  readonly command: string;
  readonly text: string;
}

/** Writes what was printed; the sections of earlier runs stay where they are not made anew. */
export function saveResults(printed: readonly Printed[]): void {
  const kept = existsSync(FILE) ? splitSections(readFileSync(FILE, 'utf8')) : new Map<string, string>();
  for (const { command, text: all } of printed) {
    const origin = `\`${command}\`, ${machine()}`;
    for (const [key, text] of splitSections(all)) kept.set(key, text.replace('\n', `\n\n${origin}\n`));
  }
  const head = [
    '# Results',
    '',
    '`npm run bench -- --save`, or section by section with `npm run bench -- <section> --save`. Machines are noisy: read the ratios, ' +
      'not the digits, and compare sections only where the machine is the same.',
    '',
  ];
  writeFileSync(FILE, [...head, ...kept.values()].join('\n'));
}

/** Where and when a section was measured. */
function machine(): string {
  const day = new Date().toISOString().slice(0, 10);
  return `${day}: ${processor()}, ${os.cpus().length} cores, Node ${process.versions.node}`;
}

/** With family and model where Linux tells them: virtual machines show the same name for several generations. */
function processor(): string {
  const name = os.cpus()[0]?.model.trim() ?? 'unknown processor';
  const info = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : '';
  const [family, model] = ['cpu family', 'model'].map(
    (field) => new RegExp(`^${field}\\s*: (\\d+)$`, 'm').exec(info)?.[1],
  );
  return family === undefined || model === undefined ? name : `${name} (family ${family}, model ${model})`;
}

/** By heading, up to a colon: what follows it, such as the instruction set, may change. */
function splitSections(text: string): Map<string, string> {
  const parts = text.split(/^(?=## )/m).filter((part) => part.startsWith('## '));
  return new Map(parts.map((part) => [part.split(/[:\n]/, 1)[0] ?? '', `${part.trimEnd()}\n`]));
}
