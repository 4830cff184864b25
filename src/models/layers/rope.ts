// Cosines and sines of every position, for each kind of rotary embedding that models are published with.

import type { Llama3Rope, LongRope, RopeConfig, YarnRope } from '../rope-config.ts';

/**
 * The table of `ops.rope`, [length, rotaryDim]: a position's rotaryDim/2 cosines, then its rotaryDim/2 sines.
 * Numbers are rounded to f32 where training did so: at far positions that decides the angle.
 * @param limit Longest context that is rotated so: `dynamic` and `longrope` stretch by it.
 */
export function ropeTable(rope: RopeConfig, rotaryDim: number, length: number, limit = length): Float32Array {
  const frequencies = Float32Array.from(ropeFrequencies(rope, rotaryDim, limit));
  const scale = 'attentionFactor' in rope ? rope.attentionFactor : 1;
  const half = rotaryDim / 2;
  const table = new Float32Array(length * rotaryDim);
  for (let position = 0; position < length; position++) {
    const start = position * rotaryDim;
    for (let i = 0; i < half; i++) {
      const angle = Math.fround(position * frequencies[i]!);
      table[start + i] = Math.cos(angle) * scale;
      table[start + half + i] = Math.sin(angle) * scale;
    }
  }
  return table;
}

/** Contexts that a model is rotated for, in tokens. */
export interface RopeLengths {
  /** Longest that comes. */
  readonly length: number;
  /** Longest that the model was loaded for. */
  readonly limit: number;
}

/**
 * The tables of short contexts and of longer ones, one after the other: [shortContext + length, rotaryDim]; only the first where
 * no longer ones come.
 * @param shortContext Of `shortContext`; null is [length, rotaryDim], for contexts of all lengths.
 */
export function ropeTables(
  rope: RopeConfig,
  rotaryDim: number,
  { length, limit }: RopeLengths,
  shortContext: number | null,
): Float32Array {
  if (shortContext !== null && length <= shortContext)
    return ropeTable(rope, rotaryDim, length, shortContext);
  const long = ropeTable(rope, rotaryDim, length, limit);
  if (shortContext === null) return long;
  const both = new Float32Array((shortContext + length) * rotaryDim);
  both.set(ropeTable(rope, rotaryDim, shortContext));
  both.set(long, shortContext * rotaryDim);
  return both;
}

/** `table` [length, rotaryDim], with which what is turned is multiplied by the factor of its position, too. */
export function scaledTable(table: Float32Array, factors: Float64Array): Float32Array {
  const rotaryDim = table.length / factors.length;
  return table.map((number, at) => number * factors[Math.floor(at / rotaryDim)]!);
}

/** The table that turns nothing, and multiplies by the factor of the position: [length, width]. */
export function scalingTable(factors: Float64Array, width: number): Float32Array {
  const table = new Float32Array(factors.length * width);
  for (const [position, factor] of factors.entries()) {
    table.fill(factor, position * width, position * width + width / 2);
  }
  return table;
}

/**
 * Tokens of the longest context whose positions are not stretched, where longer ones are; null where all contexts up to
 * `length` are alike. A context that outgrows it is computed again, all of its tokens, as in the original implementations.
 */
export function shortContext(ropes: readonly (RopeConfig | null)[], length: number): number | null {
  for (const rope of ropes) {
    const isByLength = rope?.kind === 'dynamic' || rope?.kind === 'longrope';
    if (isByLength && rope.original < length) return rope.original;
  }
  return null;
}

/** Radians a position, [rotaryDim / 2], fastest first. */
function ropeFrequencies(rope: RopeConfig, rotaryDim: number, length: number): number[] {
  switch (rope.kind) {
    case 'default':
      return plainFrequencies(rope.theta, rotaryDim);
    case 'linear':
      return plainFrequencies(rope.theta, rotaryDim).map((frequency) => frequency / rope.factor);
    case 'proportional': {
      const numTurning = Math.floor((rope.share * rotaryDim) / 2);
      return plainFrequencies(rope.theta, rotaryDim).map((frequency, i) =>
        i < numTurning ? frequency / rope.factor : 0,
      );
    }
    case 'dynamic': {
      const { theta, factor, original } = rope;
      const stretch = (factor * Math.max(length, original)) / original - (factor - 1);
      return plainFrequencies(theta * stretch ** (rotaryDim / (rotaryDim - 2)), rotaryDim);
    }
    case 'llama3':
      return plainFrequencies(rope.theta, rotaryDim).map((frequency) => llama3Frequency(rope, frequency));
    case 'yarn':
      return yarnFrequencies(rope, rotaryDim);
    case 'longrope':
      return longRopeFrequencies(rope, rotaryDim, length);
  }
}

function plainFrequencies(theta: number, rotaryDim: number): number[] {
  return Array.from(
    { length: rotaryDim / 2 },
    (_, i) => 1 / Math.fround(theta ** Math.fround((2 * i) / rotaryDim)),
  );
}

/** Slow frequencies are divided by the factor, fast ones stay, those between are blended. */
function llama3Frequency(rope: Llama3Rope, frequency: number): number {
  const { factor, lowFreqFactor, highFreqFactor, original } = rope;
  const turns = (original * frequency) / (2 * Math.PI);
  if (turns > highFreqFactor) return frequency;
  if (turns < lowFreqFactor) return frequency / factor;
  const smooth = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
  return ((1 - smooth) * frequency) / factor + smooth * frequency;
}

/** From the frequency that turns `betaFast` times in the original context down to `betaSlow`: a ramp. */
function yarnFrequencies(rope: YarnRope, rotaryDim: number): number[] {
  const { theta, factor, original, betaFast, betaSlow, truncate } = rope;
  const indexOfTurns = (turns: number) =>
    (rotaryDim * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const [low, high] = [indexOfTurns(betaFast), indexOfTurns(betaSlow)];
  const from = Math.max(truncate ? Math.floor(low) : low, 0);
  const to = Math.min(truncate ? Math.ceil(high) : high, rotaryDim - 1);
  const width = to === from ? 0.001 : to - from;
  return plainFrequencies(theta, rotaryDim).map((frequency, i) => {
    const slow = Math.min(Math.max((i - from) / width, 0), 1);
    return (frequency / factor) * slow + frequency * (1 - slow);
  });
}

function longRopeFrequencies(rope: LongRope, rotaryDim: number, length: number): number[] {
  const divisors = length > rope.original ? rope.longFactor : rope.shortFactor;
  return plainFrequencies(rope.theta, rotaryDim).map((frequency, i) => frequency / divisors[i]!);
}
