// The log of the server: one readable line an event on stderr, `time LEVEL message key=value`.

import { type Logger, pino } from 'pino';
import { shortened } from '../util/preview.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Characters of a line: more than any stack of ours has. */
const MAX_LINE = 8192;

/** What pino puts into every line and a reader needs in words or not at all. */
interface LogLine {
  readonly level: number;
  readonly time: number;
  readonly msg?: string;
  readonly [field: string]: unknown;
}

/** A logger that writes lines from `level` on; `write` gets each with its line end. */
export function createLogger(level: LogLevel, write: (line: string) => void = writeToStderr): Logger {
  const stream = { write: (json: string) => write(readableLine(JSON.parse(json))) };
  return pino({ level, base: null }, stream);
}

function writeToStderr(line: string): void {
  process.stderr.write(line);
}

function readableLine({ level, time, msg, ...fields }: LogLine): string {
  const when = new Date(time).toISOString();
  const name = (pino.levels.labels[level] ?? String(level)).toUpperCase().padEnd(5);
  const details = Object.entries(fields).map(([key, value]) => ` ${key}=${shown(value)}`);
  return `${shortened(`${when} ${name} ${msg ?? ''}${details.join('')}`, MAX_LINE)}\n`;
}

/** Unquoted only where it is one plain word, so that a client cannot forge a log line; an error as its stack. */
function shown(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'stack' in value) return String(value.stack);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return typeof value === 'string' && !/^[!#-<>-~]+$/.test(text) ? JSON.stringify(text) : text;
}
