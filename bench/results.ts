// bench/RESULTS.md: the newest figures of each section, with the command and the machine; older ones are in git.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';

const FILE = 'bench/RESULTS.md';

/** What a command printed: Markdown, each part under a heading of its own. */
export interface Printed {
  readonly command: string;
  readonly text: string;
}

interface SavedSection {
  /** Up to a colon: what follows it, such as the instruction set, may change. */
  readonly heading: string;
  readonly processor: string;
  readonly text: string;
}

/** Writes what was printed in the place of what the same processor has printed under the same heading; figures of others stay beside it. */
export function saveResults(printed: readonly Printed[]): void {
  const saved = existsSync(FILE) ? splitText(readFileSync(FILE, 'utf8')).map(toSection) : [];
  for (const { command, text } of printed) {
    const origin = `\`${command}\`, ${machine()}`;
    for (const part of splitText(text)) place(saved, toSection(part.replace('\n', `\n\n${origin}\n`)));
  }
  const head = [
    '# Results',
    '',
    '`npm run bench -- --save`, or section by section with `npm run bench -- <section> --save`. Each processor keeps its own. Machines are ' +
      'noisy: read the ratios, not the digits, and compare sections only where the machine is the same. ' +
      'Those of GPUs are in [gpu/RESULTS.md](gpu/RESULTS.md).',
    '',
  ];
  writeFileSync(FILE, [...head, ...saved.map(({ text }) => text)].join('\n'));
}

function place(saved: SavedSection[], section: SavedSection): void {
  const own = saved.findIndex(
    ({ heading, processor }) => heading === section.heading && processor === section.processor,
  );
  const last = saved.findLastIndex(({ heading }) => heading === section.heading);
  if (own !== -1) saved[own] = section;
  else saved.splice(last === -1 ? saved.length : last + 1, 0, section);
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

/** Into parts that begin with a heading each. */
function splitText(text: string): string[] {
  const parts = text.split(/^(?=## )/m).filter((part) => part.startsWith('## '));
  return parts.map((part) => `${part.trimEnd()}\n`);
}

/** @param text with the line of its origin */
function toSection(text: string): SavedSection {
  const heading = text.split(/[:\n]/, 1)[0] ?? '';
  const processor = /^`.+`, [\d-]+: (.+), \d+ cores/m.exec(text)?.[1] ?? '';
  return { heading, processor, text };
}
