// A scheduled step as the flat arrays that the ops want: the rows of all sequences, one after the other.
// The model runner is its only caller.

import type { ForwardInputs } from '../models/model.ts';
import type { SamplingRows } from '../ops/ops.ts';
import { uniform } from '../sampling/random-stream.ts';
import type { ScheduledSequence, ScheduledStep } from '../scheduler/scheduled-step.ts';

/** Flattens `step`; sequence `i` has the rows from queryStarts[i] to queryStarts[i + 1]. */
export function buildForwardInputs(step: ScheduledStep, blockSize: number): ForwardInputs {
  const { sequences, numTokens } = step;
  const maxBlocks = Math.max(1, ...sequences.map((sequence) => sequence.blocks.length));
  const tokenIds = new Int32Array(numTokens);
  const positions = new Int32Array(numTokens);
  const slotMapping = new Int32Array(numTokens);
  const queryStarts = new Int32Array(sequences.length + 1);
  const contextLengths = new Int32Array(sequences.length);
  const blockTables = new Int32Array(sequences.length * maxBlocks);
  const logitRows: number[] = [];
  let row = 0;
  for (const [index, sequence] of sequences.entries()) {
    const { firstPosition, blocks } = sequence;
    tokenIds.set(sequence.tokenIds, row);
    blockTables.set(blocks, index * maxBlocks);
    contextLengths[index] = firstPosition + sequence.tokenIds.length;
    for (let offset = 0; offset < sequence.tokenIds.length; offset += 1, row += 1) {
      const position = firstPosition + offset;
      positions[row] = position;
      slotMapping[row] = blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
    }
    queryStarts[index + 1] = row;
    if (sequence.sampling !== null) logitRows.push(row - 1);
  }
  const batch = { numSequences: sequences.length, queryStarts, contextLengths, blockTables, maxBlocks };
  return { tokenIds, positions, slotMapping, batch, logitRows: Int32Array.from(logitRows) };
}

/** One row for each sequence of `step` that samples, in order. */
export function buildSamplingRows(step: ScheduledStep): SamplingRows {
  const sampled = step.sequences.filter((sequence) => sequence.sampling !== null);
  return {
    temperature: Float32Array.from(sampled, (sequence) => sequence.sampling!.temperature),
    topK: Int32Array.from(sampled, (sequence) => sequence.sampling!.topK),
    topP: Float32Array.from(sampled, (sequence) => sequence.sampling!.topP),
    minP: Float32Array.from(sampled, (sequence) => sequence.sampling!.minP),
    uniform: Float64Array.from(sampled, drawUniform),
  };
}

/** The position is that of the token to be sampled, so a recomputed sequence draws the same number again. */
function drawUniform(sequence: ScheduledSequence): number {
  const { seed, sample, temperature } = sequence.sampling!;
  return temperature === 0 ? 0 : uniform(seed, sample, sequence.firstPosition + sequence.tokenIds.length);
}
