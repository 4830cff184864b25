// svc run-batch: answers the requests of a file and writes their answers to another, without a server that others could
// ask.

import type { OptionSource } from '../../config/merge.ts';
import { ConfigError, EngineDeadError } from '../../errors.ts';
import { startProgress } from '../../llm/progress.ts';
import { type LocalModel, startLocalModel } from '../local-model.ts';
import { BatchClient } from './batch-client.ts';
import { type BatchLine, readBatch } from './batch-input.ts';
import { BatchJournal } from './batch-journal.ts';
import { findOutput, lockOutput, permissionsOf, writeOutput } from './batch-output.ts';

export interface RunBatchOptions {
  readonly inputFile: string;
  readonly outputFile: string;
}

/**
 * Goes on with a batch that was interrupted. The output has a line for each line of the input, in the same order, and
 * appears when all of them are there.
 * @throws ConfigError for the files, EngineDeadError where the engine has ended before all is answered, and what `startLocalModel`
 *   throws.
 */
export async function runBatch(
  { inputFile, outputFile }: RunBatchOptions,
  flags: OptionSource,
): Promise<void> {
  const digests = digestsOf(inputFile);
  const output = findOutput(outputFile, inputFile);
  const unlock = await lockOutput(output);
  const numFailed = await answerInto(output, inputFile, digests, flags).finally(unlock);
  const failures = numFailed === 0 ? '' : `, ${numFailed} of them with an error`;
  process.stderr.write(`${outputFile}: ${digests.length} answers${failures}\n`);
}

/** Of the lines, in their order. @throws ConfigError where the file has no lines. */
function digestsOf(inputFile: string): readonly string[] {
  const digests = Array.from(readBatch(inputFile), ({ digest }) => digest);
  if (digests.length > 0) return digests;
  throw new ConfigError(`--input-file ${inputFile} has no requests`, { param: 'input-file' });
}

/** @returns how many requests were answered with an error. */
async function answerInto(
  output: string,
  inputFile: string,
  digests: readonly string[],
  flags: OptionSource,
): Promise<number> {
  const journal = BatchJournal.open(`${output}.journal`, permissionsOf(output));
  try {
    await answerAll(inputFile, digests, journal, flags);
    const numFailed = await writeOutput(output, digests, journal);
    journal.clear();
    return numFailed;
  } finally {
    journal.close();
  }
}

async function answerAll(
  inputFile: string,
  digests: readonly string[],
  journal: BatchJournal,
  flags: OptionSource,
): Promise<void> {
  const missing = digests.filter((digest) => !journal.has(digest)).length;
  if (missing < digests.length) {
    const answered = `${digests.length - missing} of ${digests.length} requests are answered`;
    process.stderr.write(`going on: ${answered}\n`);
  }
  const model = await startLocalModel(flags);
  try {
    journal.continueWith(model.fingerprint);
    await answerMissing(model, inputFile, missing, journal);
  } finally {
    await model.close();
  }
}

async function answerMissing(
  model: LocalModel,
  inputFile: string,
  missing: number,
  journal: BatchJournal,
): Promise<void> {
  // Enough that a slot never waits for the next request.
  const { maxNumSeqs, dataParallelSize } = model.config.engine;
  const concurrency = 2 * maxNumSeqs * dataParallelSize;
  const client = new BatchClient(model.client, concurrency);
  const progress = await startProgress(missing, true);
  const lines = missingLines(inputFile, journal);
  const work = async (): Promise<void> => {
    for (const line of lines) {
      const { result, usage } = await client.answer(line);
      if (!model.isAlive) throw brokenOff(await model.died);
      journal.append(line.digest, result);
      progress.advance(usage.promptTokens, usage.outputTokens);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(concurrency, missing) }, work));
  } finally {
    progress.stop();
    await client.close();
  }
}

/** What comes of a dead engine is kept for nobody: the model would have answered. */
function brokenOff({ message }: EngineDeadError): EngineDeadError {
  return new EngineDeadError(`${message}; what was answered is kept: give the same command again to go on`);
}

function* missingLines(inputFile: string, journal: BatchJournal): Generator<BatchLine, undefined> {
  for (const line of readBatch(inputFile)) if (!journal.has(line.digest)) yield line;
}
