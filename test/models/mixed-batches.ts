// Several prompts through a model that ranks share, in steps of parts of some of them: as a scheduler mixes them.

import type { ForwardInputs } from '../../src/models/model.ts';
import { NO_SLOT } from '../../src/ops/ops.ts';
import type { SharedModel } from './shared-model.ts';

const BLOCK_SIZE = 16;

export class MixedBatches {
  private readonly model: SharedModel;
  private readonly prompts: readonly (readonly number[])[];
  private readonly blocksOfEach: number;

  constructor(model: SharedModel, prompts: readonly (readonly number[])[]) {
    this.model = model;
    this.prompts = prompts;
    this.blocksOfEach = Math.ceil(Math.max(...prompts.map(({ length }) => length)) / BLOCK_SIZE);
  }

  /**
   * Logits of the last token of each prompt.
   * @param chunks how many tokens at most the sequences of a step take, one after the other and again
   */
  run(chunks: readonly number[]): Float32Array[] {
    const { ranks } = this.model;
    const blocks = this.prompts.length * this.blocksOfEach;
    const caches = ranks.map(({ ops, model }) =>
      ops.makeKvCache(model.kvCacheShape({ blocks, blockSize: BLOCK_SIZE, sequences: this.prompts.length })),
    );
    const done = this.prompts.map(() => 0);
    const results: Float32Array[] = [];
    for (let turn = 0; done.some((count, i) => count < this.prompts[i]!.length); turn++) {
      // Every third step leaves a sequence out, where another one goes on.
      const going = done.flatMap((count, i) => (count < this.prompts[i]!.length ? [i] : []));
      const step = going.length > 1 && turn % 3 === 2 ? going.slice(1) : going;
      const sequences = step.map((prompt, i) => {
        const size = chunks[(turn + i) % chunks.length]!;
        return {
          prompt,
          start: done[prompt]!,
          ids: this.prompts[prompt]!.slice(done[prompt]!, done[prompt]! + size),
        };
      });
      const inputs = this.inputsOf(sequences);
      const ends = sequences.map((_, i) => inputs.batch.queryStarts[i + 1]! - 1);
      const reads = ranks.map(({ ops, model }, rank) =>
        ops.scope(() =>
          ops.readLater(model.logits(model.forward(inputs, caches[rank]!), Int32Array.from(ends))),
        ),
      );
      const logits = reads.map((read) => read.read())[0]!;
      for (const [i, { prompt, ids }] of sequences.entries()) {
        done[prompt]! += ids.length;
        const width = logits.length / sequences.length;
        results[prompt] = logits.slice(i * width, (i + 1) * width);
      }
    }
    return results;
  }

  private inputsOf(
    sequences: readonly { prompt: number; start: number; ids: readonly number[] }[],
  ): ForwardInputs {
    const blockOf = (prompt: number, position: number) =>
      prompt + Math.floor(position / BLOCK_SIZE) * this.prompts.length;
    const tokens = sequences.flatMap(({ prompt, start, ids }) =>
      ids.map((id, i) => ({
        id,
        position: start + i,
        slot: blockOf(prompt, start + i) * BLOCK_SIZE + ((start + i) % BLOCK_SIZE),
      })),
    );
    const starts = [0];
    for (const { ids } of sequences) starts.push(starts.at(-1)! + ids.length);
    const tables = sequences.flatMap(({ prompt }) =>
      Array.from({ length: this.blocksOfEach }, (_, index) => blockOf(prompt, index * BLOCK_SIZE)),
    );
    return {
      tokens: { ids: Int32Array.from(tokens, ({ id }) => id), sampled: null },
      positions: Int32Array.from(tokens, ({ position }) => position),
      slotMapping: Int32Array.from(tokens, ({ slot }) => slot),
      batch: {
        numSequences: sequences.length,
        queryStarts: Int32Array.from(starts),
        contextLengths: Int32Array.from(sequences, ({ start, ids }) => start + ids.length),
        blockTables: Int32Array.from(tables),
        maxBlocks: this.blocksOfEach,
      },
      states: {
        sources: Int32Array.from(sequences, ({ prompt, start }) => (start === 0 ? NO_SLOT : prompt)),
        slots: Int32Array.from(sequences, ({ prompt }) => prompt),
        saves: new Int32Array(0),
      },
    };
  }
}
