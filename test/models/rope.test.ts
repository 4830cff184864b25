import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import {
  ropeTable,
  ropeTables,
  scaledTable,
  scalingTable,
  shortContext,
} from '../../src/models/layers/rope.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { growthFactors } from '../../src/models/query-growth.ts';
import type { RopeConfig } from '../../src/models/rope-config.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';

const HEAD_DIM = 8;
const PLAIN = [1, 0.1, 0.01, 0.001];

/** Radians at position 1: what the table turns by a token. */
function frequencies(rope: RopeConfig, length: number): number[] {
  const row = ropeTable(rope, HEAD_DIM, length).subarray(HEAD_DIM, 2 * HEAD_DIM);
  return PLAIN.map((_, i) => Math.atan2(row[4 + i]!, row[i]!));
}

function expectClose(got: readonly number[], want: readonly number[]): void {
  for (const [i, value] of want.entries()) expect(got[i]! / value).toBeCloseTo(1, 4);
}

const longrope: RopeConfig = {
  kind: 'longrope',
  theta: 10000,
  original: 32,
  shortFactor: [1, 1, 1, 2],
  longFactor: [1, 2, 4, 8],
  attentionFactor: 1.5,
};

describe('ropeTable', () => {
  it('starts with a turn by nothing, and holds cosines before sines', () => {
    const table = ropeTable({ kind: 'default', theta: 10000 }, HEAD_DIM, 2);
    expect([...table.subarray(0, 8)]).toEqual([1, 1, 1, 1, 0, 0, 0, 0]);
    expect(table[8]).toBeCloseTo(Math.cos(1), 7);
    expect(table[12]).toBeCloseTo(Math.sin(1), 7);
  });

  it('divides every frequency by a linear factor', () => {
    expectClose(
      frequencies({ kind: 'linear', theta: 10000, factor: 4 }, 8),
      PLAIN.map((f) => f / 4),
    );
  });

  it('turns the fastest frequencies alone where positions are proportional', () => {
    const rope = { kind: 'proportional', theta: 10000, factor: 2, share: 0.5 } as const;
    const [first, second, ...others] = frequencies(rope, 8);
    expectClose([first!, second!], [0.5, 0.05]);
    expect(others).toEqual([0, 0]);
  });

  it('leaves dynamic positions alone up to the original length, and stretches them by the served one', () => {
    const rope = { kind: 'dynamic', theta: 10000, factor: 2, original: 32 } as const;
    expectClose(frequencies(rope, 32), PLAIN);
    // theta * (2 * 64 / 32 - 1) ^ (8 / 6)
    const theta = 10000 * 3 ** (8 / 6);
    expectClose(
      frequencies(rope, 64),
      PLAIN.map((_, i) => theta ** (-i / 4)),
    );
  });

  it('chooses the factors of longrope by the served length, and scales its numbers', () => {
    expectClose(frequencies(longrope, 32), [1, 0.1, 0.01, 0.0005]);
    expectClose(frequencies(longrope, 33), [1, 0.05, 0.0025, 0.000125]);
    expect(ropeTable(longrope, HEAD_DIM, 1)[0]).toBe(1.5);
  });

  it('puts the table of longer contexts behind that of the short ones', () => {
    const both = ropeTables(longrope, HEAD_DIM, { length: 40, limit: 40 }, 32);
    expect(both.subarray(0, 32 * HEAD_DIM)).toEqual(ropeTable(longrope, HEAD_DIM, 32));
    expect(both.subarray(32 * HEAD_DIM)).toEqual(ropeTable(longrope, HEAD_DIM, 40));
    const lengths = { length: 40, limit: 40 };
    expect(ropeTables(longrope, HEAD_DIM, lengths, null)).toEqual(ropeTable(longrope, HEAD_DIM, 40));
  });

  it('has no more positions than come, stretched as the longest that may', () => {
    const whole = ropeTables(longrope, HEAD_DIM, { length: 80, limit: 80 }, 32);
    const some = ropeTables(longrope, HEAD_DIM, { length: 40, limit: 80 }, 32);
    expect(some).toEqual(whole.subarray(0, (32 + 40) * HEAD_DIM));
    const short = ropeTables(longrope, HEAD_DIM, { length: 20, limit: 80 }, 32);
    expect(short).toEqual(whole.subarray(0, 20 * HEAD_DIM));
  });

  it('knows the longest context that is not stretched, where longer ones are', () => {
    const dynamic = { kind: 'dynamic', theta: 10000, factor: 2, original: 16 } as const;
    expect(shortContext([longrope], 33)).toBe(32);
    expect(shortContext([null, dynamic], 33)).toBe(16);
    expect(shortContext([longrope], 32)).toBe(null);
    expect(shortContext([{ kind: 'linear', theta: 500, factor: 2 }, null], 1000)).toBe(null);
  });

  it('lets queries grow with each length of the first training that they are behind', () => {
    const growth = { beta: 0.1, original: 8, first: 0, layers: 'with positions' } as const;
    const factors = growthFactors(growth, 20)!;
    const [second, third] = [2, 3].map((lengths) => 1 + 0.1 * Math.log(lengths));
    expectClose(
      [0, 7, 8, 15, 16, 19].map((position) => factors[position]!),
      [1, 1, second!, second!, third!, third!],
    );
    expect(growthFactors(growth, 8)).toBe(null);
    const fromOne = { ...growth, first: 1 } as const;
    expect(growthFactors(fromOne, 8)).toEqual(growthFactors(growth, 9)!.subarray(1));
    expect(growthFactors(fromOne, 7)).toBe(null);
    const table = ropeTable({ kind: 'default', theta: 500 }, HEAD_DIM, 20);
    const grown = scaledTable(table, factors);
    expect(grown.subarray(0, 8 * HEAD_DIM)).toEqual(table.subarray(0, 8 * HEAD_DIM));
    expectClose([grown[17 * HEAD_DIM + 1]!], [table[17 * HEAD_DIM + 1]! * third!]);
    const [cosine, cosines, ...sines] = scalingTable(factors, 4).subarray(8 * 4, 9 * 4);
    expectClose([cosine!, cosines!], [second!, second!]);
    expect(sines).toEqual([0, 0]);
  });

  it('gives a position the same numbers whatever the length of the table', () => {
    for (const rope of [
      { kind: 'default', theta: 500 },
      { ...longrope, original: 4 },
    ] as const) {
      expect(ropeTable(rope, HEAD_DIM, 20).subarray(0, 80)).toEqual(ropeTable(rope, HEAD_DIM, 10));
    }
  });
});

describe('a model whose served length is found after its weights', () => {
  it.each(['llama-yarn', 'phi3-longrope', 'deepseek-v2', 'cohere2'])(
    '%s has tables of that length, with the numbers of the whole ones',
    async (name) => {
      const folder = fileURLToPath(new URL(`../fixtures/goldens/${name}`, import.meta.url));
      const load = async (servedLength: (() => Promise<number>) | null) => {
        const ops = new RecordingOps();
        const options = { dtype: 'float32', maxModelLen: null, servedLength } as const;
        const { config } = await loadModel(openModelSource(folder), ops, options);
        // Longer than the weights of any norm.
        const ofRopes = ops.vectors.filter(({ length }) => length >= 20 * config.rotaryDim);
        return { tables: ofRopes, rotaryDim: config.rotaryDim };
      };
      const whole = await load(null);
      const some = await load(async () => 20);
      expect(some.tables).toHaveLength(whole.tables.length);
      expect(whole.tables.length).toBeGreaterThan(0);
      for (const [index, table] of some.tables.entries()) {
        expect(table).toHaveLength(20 * some.rotaryDim);
        expect(table).toEqual(whole.tables[index]!.subarray(0, table.length));
      }
    },
  );
});

/** Keeps the numbers that it is given. */
class RecordingOps extends ReferenceOps {
  readonly vectors: Float32Array[] = [];

  override makeVector(values: Float32Array) {
    this.vectors.push(values);
    return super.makeVector(values);
  }
}

describe('a model with dynamic positions', () => {
  const folder = fileURLToPath(new URL('../fixtures/goldens/llama-dynamic', import.meta.url));

  /** The lengths that are served, and what a person is told. */
  async function load(maxModelLen: number | null) {
    const warnings: string[] = [];
    const options = { dtype: 'float32', onWarning: (text: string) => void warnings.push(text) } as const;
    const model = await loadModel(openModelSource(folder), new ReferenceOps(), { ...options, maxModelLen });
    return { model, warnings };
  }

  it('is served to its original length, where all numbers are the original ones', async () => {
    const { model, warnings } = await load(null);
    expect([model.config.maxPositionEmbeddings, model.shortContext]).toEqual([24, null]);
    expect(warnings).toEqual([]);
  });

  it('says what stretching does where more is asked for, and refuses more than its factor', async () => {
    const { model, warnings } = await load(40);
    expect(model.shortContext).toBe(24);
    expect(warnings).toEqual([
      expect.stringMatching(
        /contexts of more than 24 tokens \(rope type dynamic\) .* one of 40, --max-model-len/,
      ),
    ]);
    await expect(load(49)).rejects.toThrow(
      "--max-model-len 49 is longer than the model's own limit of 48 tokens",
    );
  });
});
