// Laws of the ops of layers that keep a state of each sequence, for any backend.

import { describe, expect, it } from 'vitest';
import { ShapeError } from '../../src/errors.ts';
import { type KvCache, NO_SLOT, type Ops, type Tensor } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { headStatesWidth } from '../../src/ops/states.ts';
import { BF16_ROUNDING, dtypes, expectClose, Random } from './native-backends.ts';
import { beginStep } from './steps.ts';

const MOST_TOKENS = 64;

/** A batch of pieces of sequences: the tokens [from, to) of sequence `of`. */
interface Piece {
  readonly of: number;
  readonly from: number;
  readonly to: number;
  /** Left out: the number of the sequence. */
  readonly slot?: number;
  /** The slot that it goes on from; left out, its own, or none where it begins. */
  readonly source?: number;
  /** After so many tokens of the sequence its state is kept in a slot, too. */
  readonly saves?: readonly { readonly at: number; readonly slot: number }[];
  /** What its slot is moved into, or out of: [1 or 0, count, block * count]. */
  readonly move?: readonly number[];
}

/** An op with a state, over rows of some columns. */
interface Layer {
  readonly name: string;
  /** Numbers of each input of a token. */
  readonly widths: readonly number[];
  readonly out: number;
  readonly stateWidth: number;
  apply(ops: Ops, inputs: readonly Tensor[], step: ReturnType<typeof beginStep>): Tensor;
}

export function convolution(
  channels: number,
  taps: number,
  activation: 'silu' | 'identity',
  hasBias: boolean,
): Layer {
  const random = new Random(channels);
  const [weight, bias] = [random.floats(taps * channels), random.floats(channels)];
  const first = 5;
  return {
    name: `convolve of ${channels} channels, ${taps} taps, ${activation}`,
    widths: [channels],
    out: channels,
    stateWidth: first + (taps - 1) * channels,
    apply: (ops, [x], step) =>
      ops.convolve(x!, step, {
        layer: 1,
        first,
        weight: ops.makeVector(weight),
        bias: hasBias ? ops.makeVector(bias) : null,
        activation,
      }),
  };
}

export function deltaRule(
  keyHeads: number,
  keyDim: number,
  heads: number,
  valueDim: number,
  isTiled = false,
): Layer {
  const random = new Random(heads);
  const rates = random.floats(heads).map((x) => -0.01 - 4 * Math.abs(x));
  const rateBias = random.floats(heads);
  const first = 3;
  return {
    name: `gatedDelta of ${keyHeads} and ${heads} heads${isTiled ? ' in turn' : ''}, ${keyDim} to ${valueDim}`,
    widths: [keyHeads * keyDim, keyHeads * keyDim, heads * valueDim, heads, heads],
    out: heads * valueDim,
    stateWidth: first + headStatesWidth({ heads, keyDim, valueDim }),
    apply: (ops, [q, k, v, forgetting, writing], step) =>
      ops.gatedDelta({ q: q!, k: k!, v: v!, forgetting: forgetting!, writing: writing! }, step, {
        layer: 1,
        first,
        keyHeads,
        keyDim,
        heads,
        valueDim,
        isTiled,
        rates: ops.makeVector(rates),
        rateBias: ops.makeVector(rateBias),
      }),
  };
}

export function selectiveScan(groups: number, stateDim: number, heads: number, headDim: number): Layer {
  const random = new Random(heads);
  const rates = random.floats(heads).map((x) => -0.01 - 4 * Math.abs(x));
  const [stepBias, skips] = [random.floats(heads), random.floats(heads)];
  const first = 3;
  return {
    name: `selectiveScan of ${groups} groups, ${heads} heads, ${stateDim} by ${headDim}`,
    widths: [heads * headDim, groups * stateDim, groups * stateDim, heads],
    out: heads * headDim,
    stateWidth: first + headStatesWidth({ heads, keyDim: stateDim, valueDim: headDim }),
    apply: (ops, [x, b, c, steps], step) =>
      ops.selectiveScan({ x: x!, b: b!, c: c!, steps: steps! }, step, {
        layer: 1,
        first,
        groups,
        stateDim,
        heads,
        headDim,
        rates: ops.makeVector(rates),
        stepBias: ops.makeVector(stepBias),
        skips: ops.makeVector(skips),
      }),
  };
}

export const LAYERS: readonly Layer[] = [
  convolution(24, 4, 'silu', false),
  convolution(1100, 3, 'identity', true),
  convolution(7, 1, 'identity', false),
  deltaRule(2, 16, 4, 24),
  deltaRule(2, 16, 6, 24, true),
  deltaRule(1, 6, 3, 5),
  deltaRule(2, 128, 2, 128),
  selectiveScan(1, 16, 4, 24),
  selectiveScan(2, 128, 4, 64),
];

/** Inputs of three sequences of up to 64 tokens: keys of such a length that no state grows without end. */
function tokensOf({ widths }: Layer): readonly (readonly Float32Array[])[] {
  const random = new Random(7);
  return [0, 1, 2].map(() =>
    widths.map((width, index) => {
      const scale = index === 1 ? 1 / Math.sqrt(width) : 1;
      return random.floats(MOST_TOKENS * width).map((x) => x * scale);
    }),
  );
}

const KV_LAYERS = 2;
/** Each of them holds some numbers of a state. */
const NUM_BLOCKS = 128;

function makeCache(ops: Ops, { stateWidth }: Layer): KvCache {
  const states = { layers: 2, slots: 4, width: stateWidth };
  return ops.makeKvCache({
    layers: KV_LAYERS,
    blocks: NUM_BLOCKS,
    blockSize: 64,
    kvHeads: 1,
    headDim: 2,
    dtype: 'f32',
    states,
  });
}

/** What the pieces of one step get, one after the other. */
function compute(ops: Ops, layer: Layer, cache: KvCache, pieces: readonly Piece[]): Float32Array[] {
  const tokens = tokensOf(layer);
  const queryStarts = new Int32Array(pieces.length + 1);
  for (const [i, { from, to }] of pieces.entries()) queryStarts[i + 1] = queryStarts[i]! + to - from;
  const numRows = queryStarts.at(-1)!;
  return ops.scope(() => {
    const inputs = layer.widths.map((width, input) => {
      const values = new Float32Array(numRows * width);
      for (const [i, { of, from, to }] of pieces.entries())
        values.set(tokens[of]![input]!.subarray(from * width, to * width), queryStarts[i]! * width);
      return ops.tensor(values, numRows, width, 'f32');
    });
    const step = beginStep(ops, cache, numRows, {
      batch: {
        numSequences: pieces.length,
        queryStarts,
        contextLengths: Int32Array.from(pieces, ({ to }) => to),
        blockTables: new Int32Array(pieces.length),
        maxBlocks: 1,
      },
      states: {
        sources: Int32Array.from(
          pieces,
          ({ of, from, slot = of, source }) => source ?? (from === 0 ? NO_SLOT : slot),
        ),
        slots: Int32Array.from(pieces, ({ of, slot = of }) => slot),
        saves: Int32Array.from(
          pieces.flatMap(({ from, saves = [] }, i) => saves.flatMap(({ at, slot }) => [i, at - from, slot])),
        ),
        moves: Int32Array.from(pieces.flatMap(({ of, slot = of, move }) => (move ? [slot, ...move] : []))),
      },
    });
    const out = ops.read(layer.apply(ops, inputs, step));
    return pieces.map((_, i) => out.slice(queryStarts[i]! * layer.out, queryStarts[i + 1]! * layer.out));
  });
}

/** Sequence 0 by itself in one step. */
export function whole(ops: Ops, layer: Layer): Float32Array {
  return compute(ops, layer, makeCache(ops, layer), [{ of: 0, from: 0, to: MOST_TOKENS }])[0]!;
}

/** That a state follows from the tokens alone. */
export function describeStateLaws(ops: Ops): void {
  it.each(LAYERS)('$name has the same bits however a sequence is cut and batched', (layer) => {
    const expected = whole(ops, layer);
    for (let seed = 1; seed < 6; seed++) {
      const random = new Random(seed);
      const cache = makeCache(ops, layer);
      const at = [0, 0, 0];
      const got: number[] = [];
      while (at[0]! < MOST_TOKENS) {
        const pieces = [2, 0, 1].flatMap((of): Piece[] => {
          const from = at[of]!;
          const to = Math.min(MOST_TOKENS, from + random.integer(0, 8));
          at[of] = to;
          return to === from ? [] : [{ of, from, to }];
        });
        const outs = compute(ops, layer, cache, pieces);
        for (const [i, { of }] of pieces.entries()) if (of === 0) got.push(...outs[i]!);
      }
      expect(Float32Array.from(got)).toEqual(expected);
      cache.free();
    }
  });

  it.each(LAYERS)(
    '$name goes on from states that were kept in the middle of a step, again and again',
    (layer) => {
      const expected = whole(ops, layer);
      const rest = (at: number) => expected.slice(at * layer.out);
      for (const [first, second] of [
        [1, 2],
        [3, 41],
        [23, 24],
        [38, 50],
      ] as const) {
        const cache = makeCache(ops, layer);
        const saves = [
          { at: first, slot: 3 },
          { at: second, slot: 2 },
        ];
        const other = { of: 1, from: 0, to: 5 };
        compute(ops, layer, cache, [other, { of: 0, from: 0, to: 50, saves }]);
        const goOn = (from: number, source: number) => ({ of: 0, from, to: MOST_TOKENS, source, slot: 1 });
        expect(compute(ops, layer, cache, [goOn(first, 3)])[0]).toEqual(rest(first));
        expect(compute(ops, layer, cache, [goOn(second, 2)])[0]).toEqual(rest(second));
        // A save of a sequence that goes on from another one's state, and one that nobody has written over.
        const again = { ...goOn(first, 3), saves: [{ at: MOST_TOKENS - 2, slot: 2 }] };
        expect(compute(ops, layer, cache, [again])[0]).toEqual(rest(first));
        expect(compute(ops, layer, cache, [goOn(MOST_TOKENS - 2, 2)])[0]).toEqual(rest(MOST_TOKENS - 2));
        expect(compute(ops, layer, cache, [{ of: 0, from: 50, to: MOST_TOKENS }])[0]).toEqual(rest(50));
        cache.free();
      }
    },
  );

  it.each(LAYERS)(
    '$name goes on from a state that went through blocks of KV memory, in another slot',
    (layer) => {
      const cache = makeCache(ops, layer);
      const expected = whole(ops, layer);
      const numBlocks = Math.ceil((2 * layer.stateWidth * 4) / (KV_LAYERS * cache.layerBlockBytes));
      const blocks = Array.from({ length: numBlocks }, (_, i) => (5 * i + 3) % NUM_BLOCKS);
      compute(ops, layer, cache, [{ of: 0, from: 0, to: 23 }]);
      // The one that leaves goes on; one that begins takes the slot that it came to.
      const leaving = [{ of: 0, from: 23, to: 30, move: [1, numBlocks, ...blocks] }];
      expect(compute(ops, layer, cache, leaving)[0]).toEqual(expected.slice(23 * layer.out, 30 * layer.out));
      compute(ops, layer, cache, [{ of: 1, from: 0, to: 9 }]);
      const come = { of: 0, from: 23, to: MOST_TOKENS, slot: 1, move: [0, numBlocks, ...blocks] };
      expect(compute(ops, layer, cache, [come])[0]).toEqual(expected.slice(23 * layer.out));
      cache.free();
    },
  );

  it.each(LAYERS)('$name begins anew in a slot that another sequence had', (layer) => {
    const cache = makeCache(ops, layer);
    compute(ops, layer, cache, [{ of: 1, from: 0, to: 40 }]);
    const [again] = compute(ops, layer, cache, [{ of: 0, from: 0, to: MOST_TOKENS, slot: 1 }]);
    expect(again).toEqual(whole(ops, layer));
    cache.free();
  });

  it.each(LAYERS)(
    '$name computes a row without a slot, which fills a batch up, and keeps nothing of it',
    (layer) => {
      const cache = makeCache(ops, layer);
      const first = { of: 0, from: 0, to: 9 };
      const filling = { of: 1, from: 0, to: 1, slot: NO_SLOT };
      const got = [
        ...compute(ops, layer, cache, [first, filling])[0]!,
        ...compute(ops, layer, cache, [{ of: 0, from: 9, to: MOST_TOKENS }, filling])[0]!,
      ];
      expect(Float32Array.from(got)).toEqual(whole(ops, layer));
      cache.free();
    },
  );

  it('refuses states that are not there, and slots of several sequences', () => {
    const layer = deltaRule(1, 8, 2, 8);
    const step =
      (pieces: readonly Piece[], of = layer) =>
      () =>
        compute(ops, of, makeCache(ops, layer), pieces);
    const one = { of: 0, from: 0, to: 2 };
    expect(step([one, { of: 1, from: 0, to: 2, slot: 0 }])).toThrow(ShapeError);
    expect(step([{ ...one, slot: 4 }])).toThrow(/lots from -1 to 3/);
    expect(step([one, { of: 1, from: 1, to: 2, slot: 1, source: 0 }])).toThrow(/one sequence each/);
    expect(step([{ ...one, saves: [{ at: 1, slot: 0 }] }])).toThrow(/one sequence each/);
    expect(step([{ ...one, saves: [{ at: 3, slot: 1 }] }])).toThrow(/saves/);
    expect(step([{ ...one, saves: [{ at: 0, slot: 1 }] }])).toThrow(/saves/);
    expect(step([{ ...one, saves: [{ at: 1, slot: 4 }] }])).toThrow(/save/);
    expect(step([one], deltaRule(1, 8, 3, 8))).toThrow(/state/);
    for (const move of [[1], [1, 9, 0], [1, 0], [1, 1, NUM_BLOCKS], [0, 1, -1]])
      expect(step([{ ...one, move }]), `${move}`).toThrow(/states/);
  });
}

/** Against the definitions. */
export function describeStateOps(ops: Ops): void {
  const reference = new ReferenceOps();

  it.each(LAYERS)('$name is what it is defined to be', (layer) => {
    expectClose(whole(ops, layer), whole(reference, layer), { absolute: 2e-5, relative: 2e-5 });
  });

  describe.each(dtypes)('gates to %s', (dtype) => {
    it.each(['silu', 'sigmoid', 'identity'] as const)(
      'that open by %s are what they are defined to be',
      (opening) => {
        const random = new Random(3);
        const [rows, cols] = [5, 77];
        const [x, by] = [random.floats(rows * cols), random.floats(rows * cols).map((value) => 20 * value)];
        for (const input of dtypes) {
          const gated = (of: Ops): Float32Array =>
            of.scope(() => {
              const gates = of.tensor(by, rows, cols, 'f32');
              return of.read(of.gate(of.tensor(x, rows, cols, input), gates, opening, dtype));
            });
          const relative = dtype === 'bf16' ? BF16_ROUNDING : 4e-6;
          expectClose(gated(ops), gated(reference), { absolute: 1e-6, relative });
        }
      },
    );
  });
}
