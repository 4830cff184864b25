// Figures held against the limits of their own moment: those of a shared machine change by half within minutes.

import { chooseIsa, chooseThreads, loadNative } from '../src/native/native.ts';
import { type BenchFormat, CPU_ISA, isOfInt8, type SpeedLimits } from './machine.ts';

const ROUNDS = 5;
/** More than any cache holds, and read in a few hundredths of a second. */
const READ_BYTES = 2 ** 28;

/** Measures the machine's limits between the rounds of a benchmark. */
export class LimitProbe {
  readonly #backend;

  constructor() {
    const native = loadNative();
    this.#backend = new native.CpuBackend(chooseIsa(native, CPU_ISA), chooseThreads(native, null));
  }

  /**
   * Runs `body`, which returns a speed, a few times between two measurements each.
   * @param limitOf the limit of that speed, in its unit.
   * @returns speed and limit of the round whose ratio is the median.
   */
  hold(
    format: BenchFormat,
    body: () => number,
    limitOf: (limits: SpeedLimits) => number,
  ): { value: number; limit: number } {
    let before = limitOf(this.#measure(format));
    const rounds = Array.from({ length: ROUNDS }, () => {
      const value = body();
      const after = limitOf(this.#measure(format));
      const limit = (before + after) / 2;
      before = after;
      return { value, limit };
    });
    const ratio = (round: { value: number; limit: number }): number => round.value / round.limit;
    return rounds.toSorted((a, b) => ratio(a) - ratio(b))[Math.floor(ROUNDS / 2)]!;
  }

  close(): void {
    this.#backend.close();
  }

  #measure(format: BenchFormat): SpeedLimits {
    return {
      readBytesPerSecond: this.#backend.readBandwidth(READ_BYTES, 1),
      operationsPerSecond: this.#backend.matrixPeak(1, isOfInt8(format)),
    };
  }
}
