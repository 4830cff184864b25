// Where the answers of a batch go. It is looked at before anything is computed: the answers take its place in the end, and
// nothing but an earlier output may be lost for them.

import { lstatSync, readlinkSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import * as z from 'zod';
import { ConfigError, messageOf } from '../../errors.ts';
import { acquireLock } from '../../hub/lock.ts';
import type { BatchJournal } from './batch-journal.ts';

const succeeded = z.object({ error: z.null() });
const UNFINISHED = '.unfinished';
const LOCK = '.journal.lock';
/** What is written: the output, and what lies beside it until that is whole. */
const WRITTEN = ['', '.journal', LOCK, UNFINISHED];

/**
 * The file that is to be written: where `outputFile` is a link, what it points to.
 * @throws ConfigError where something else than an earlier output would be lost.
 */
export function findOutput(outputFile: string, inputFile: string): string {
  if (outputFile === '-') {
    throw refused(
      '- is no file, and a batch that is interrupted goes on from what lies beside it: name a file',
    );
  }
  try {
    if (isOtherThanFile(outputFile)) {
      throw refused(`${outputFile} is a folder, pipe or device: give the name of a file`);
    }
    const path = withoutLinks(outputFile);
    const input = WRITTEN.map((suffix) => `${path}${suffix}`).find((file) => isSameFile(file, inputFile));
    if (input === undefined) return path;
    throw refused(`${outputFile} would write over the requests, which are in ${input}: give another file`);
  } catch (error) {
    throw unwritable(outputFile, error);
  }
}

/**
 * Gives the function that lets others write it again; a process that was killed does not keep them from it.
 * @throws ConfigError where another process writes it: both would append to one journal.
 */
export async function lockOutput(path: string): Promise<() => Promise<void>> {
  try {
    return await acquireLock(`${path}${LOCK}`, () => {
      throw refused(`${path} is being written by another process: wait for its end, or give another file`);
    });
  } catch (error) {
    throw unwritable(path, error);
  }
}

/**
 * Under its name it is whole, or what was there before.
 * @returns how many of the results are errors.
 */
export async function writeOutput(
  path: string,
  digests: readonly string[],
  journal: BatchJournal,
): Promise<number> {
  let numFailed = 0;
  const unfinished = `${path}${UNFINISHED}`;
  try {
    const file = await open(unfinished, 'w', permissionsOf(path));
    try {
      for (const digest of digests) {
        const result = journal.read(digest);
        if (!succeeded.safeParse(result).success) numFailed += 1;
        // Not `write`, which may write a part of it where the disk is full, without an error.
        await file.appendFile(`${JSON.stringify(result)}\n`);
      }
    } finally {
      await file.close();
    }
    renameSync(unfinished, path);
    return numFailed;
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw unwritable(path, error);
  }
}

/** Of a new file that takes the place of `path`, or holds a part of it: nobody may read there what he could not read before. */
export function permissionsOf(path: string): number {
  return (statSync(path, { throwIfNoEntry: false })?.mode ?? 0o666) & 0o666;
}

/** Whether there is something that is no file: all would be computed before it turns out that this cannot be replaced. */
function isOtherThanFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === false;
}

/** The file need not be there yet, whether a link points to it or not. */
function withoutLinks(path: string): string {
  const folder = realpathSync(dirname(path));
  const here = join(folder, basename(path));
  const target = linkTarget(here);
  return target === null ? here : withoutLinks(resolve(folder, target));
}

function linkTarget(path: string): string | null {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true ? readlinkSync(path) : null;
}

function isSameFile(path: string, other: string): boolean {
  const [one, two] = [path, other].map((name) => statSync(name, { throwIfNoEntry: false }));
  return one !== undefined && two !== undefined && one.ino === two.ino && one.dev === two.dev;
}

function refused(why: string): ConfigError {
  return new ConfigError(`--output-file ${why}`, { param: 'output-file' });
}

function unwritable(path: string, error: unknown): ConfigError {
  return error instanceof ConfigError ? error : refused(`${path} cannot be written: ${messageOf(error)}`);
}
