// What a person typed, over the runs of a command: one JSON text a line in a file that only they can read.

import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import * as z from 'zod';
import { messageOf } from '../../errors.ts';
import { homeFolder } from '../../util/home-folder.ts';
import { parseJson } from '../../util/parse-json.ts';

const MAX_ENTRIES = 1000;
/** A longer message is a document, not something to type again. */
const MAX_ENTRY_LENGTH = 10_000;
const PRIVATE = 0o600;

export class History {
  readonly #path: string;
  #newestFirst: string[] = [];
  /** Why nothing is kept for the next run; null where it is. */
  problem: string | null = null;

  /** @param name of the file, one a command. */
  constructor(name: string, env: NodeJS.ProcessEnv = process.env) {
    this.#path = join(stateFolder(env), name);
    this.#try(() => this.#read());
  }

  get newestFirst(): readonly string[] {
    return this.#newestFirst;
  }

  add(entry: string): void {
    if (entry.length > MAX_ENTRY_LENGTH || entry === this.#newestFirst[0]) return;
    this.#newestFirst.unshift(entry);
    this.#newestFirst.length = Math.min(this.#newestFirst.length, MAX_ENTRIES);
    // Appended, so that two chats at a time lose nothing of each other.
    this.#try(() => appendFileSync(this.#path, `${JSON.stringify(entry)}\n`, { mode: PRIVATE }));
  }

  #read(): void {
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    if (!existsSync(this.#path)) return;
    chmodSync(this.#path, PRIVATE);
    const lines = readFileSync(this.#path, 'utf8').split('\n').filter(Boolean);
    const kept = lines.slice(-MAX_ENTRIES);
    if (kept.length < lines.length) this.#replace(kept);
    this.#newestFirst = kept.flatMap(readEntry).reverse();
  }

  #replace(lines: readonly string[]): void {
    const temporary = `${this.#path}.${process.pid}`;
    writeFileSync(temporary, `${lines.join('\n')}\n`, { mode: PRIVATE });
    renameSync(temporary, this.#path);
  }

  /** A home that cannot be written is no reason not to talk. */
  #try(work: () => void): void {
    if (this.problem !== null) return;
    try {
      work();
    } catch (error) {
      this.problem = `what you type is not kept: ${messageOf(error)}`;
    }
  }
}

function stateFolder(env: NodeJS.ProcessEnv): string {
  const given = env.XDG_STATE_HOME ?? '';
  return join(isAbsolute(given) ? given : join(homeFolder(), '.local', 'state'), 'svc');
}

/** None where the line was cut off, as on a full disk: no reason to lose the others. */
function readEntry(line: string): string[] {
  const { success, data } = z.string().safeParse(parseJson(line));
  return success ? [data] : [];
}
