// The executor of a model that gives numbers for a sequence in the place of tokens: forward pass, then what is made of the
// rows that stand for the sequences which the step completes.

import { ModelLoadError } from '../errors.ts';
import type { Model } from '../models/model.ts';
import { type PoolingConfig, pooledSize } from '../models/pooling/pooling-config.ts';
import type { Ops, Pending, Tensor } from '../ops/ops.ts';
import type { ScheduledStep, SequenceOutput, StepResult } from '../scheduler/scheduled-step.ts';
import { buildForwardInputs } from './batch-inputs.ts';
import type { EngineInfo, Executor } from './executor.ts';
import { amongStages } from './failure-of-stages.ts';
import type { KvMemory } from './kv-memory.ts';
import { type LaunchedForward, launchForward } from './launch-forward.ts';
import { RequestStates } from './request-states.ts';

interface ForwardPass extends LaunchedForward {
  readonly step: ScheduledStep;
  readonly queryStarts: Int32Array;
}

interface InFlightStep {
  readonly step: ScheduledStep;
  readonly planPoint: Pending<void>;
  /** The numbers of each sequence that the step completes, one after the other; null where this rank makes none. */
  readonly pooled: Pending<Float32Array> | null;
  /** What else is to be awaited. */
  readonly computed: readonly Pending<void>[];
}

/** Of one sequence. */
interface RowRange {
  readonly start: number;
  readonly end: number;
}

const NOTHING = new Float32Array(0);

export class PoolingRunner implements Executor {
  readonly info: EngineInfo;
  readonly kvParts = [];
  readonly draftModel = null;
  readonly adapters = [];
  /** That of the stage that pools. */
  readonly #ops: Ops;
  readonly #stages: readonly Ops[];
  readonly #model: Model;
  readonly #kv: KvMemory;
  readonly #pooling: PoolingConfig;
  readonly #requests = new RequestStates();
  #pass: ForwardPass | null = null;
  /** The oldest first. */
  readonly #inFlight: InFlightStep[] = [];

  /** @param stages what the stages of the model are computed on; one where it is in one piece */
  constructor(info: EngineInfo, stages: readonly Ops[], model: Model, kv: KvMemory, pooling: PoolingConfig) {
    this.info = info;
    this.#ops = stages.at(-1)!;
    this.#stages = stages;
    this.#model = model;
    this.#kv = kv;
    this.#pooling = pooling;
  }

  get busySeconds(): number | null {
    // Later stages wait for it.
    return this.#stages[0]!.busySeconds;
  }

  see(): void {
    throw new Error('a model that pools sees no images');
  }

  forward(step: ScheduledStep, planPoint: number): void {
    this.#requests.apply(step);
    const { inputs, queryStarts } = buildForwardInputs(step, this.info, this.#requests);
    const tokenTypes = this.#model.config.encoder === null ? undefined : typesOf(step, queryStarts);
    const withTypes = { ...inputs, tokenTypes };
    const launched = amongStages(this.#stages, () =>
      launchForward(this.#ops, this.#model, this.#kv.cache, withTypes, planPoint),
    );
    this.#pass = { ...launched, step, queryStarts };
  }

  /** Nothing is sampled: there are no edits. */
  sample(): void {
    const pass = this.#pass;
    if (pass === null) throw new Error('no forward pass has been started to pool');
    this.#pass = null;
    try {
      const { step, planPoint } = pass;
      const pooled = amongStages(this.#stages, () => this.#pool(pass));
      this.#inFlight.push({ step, planPoint, pooled, computed: this.#marks(pooled) });
    } finally {
      pass.scope.close();
    }
  }

  awaitPlanPoint(): void {
    this.#inFlight[0]?.planPoint.read();
  }

  read(): StepResult {
    const oldest = this.#inFlight.shift();
    if (oldest === undefined) throw new Error('no step is in flight to be read');
    const { sequences } = oldest.step;
    const numbers = this.#numbersOf(oldest);
    const size = pooledSize(this.#pooling);
    let end = 0;
    const outputs = sequences.map(({ pooling }): SequenceOutput | null => {
      if (!pooling) return null;
      const values = numbers.slice(end, end + size);
      end += size;
      return values.every(Number.isFinite) ? { kind: 'pooled', values } : { kind: 'brokenLogits' };
    });
    const none = sequences.map(() => []);
    return { outputs, promptLogprobs: none, resumedLogprobs: none };
  }

  /** @throws ModelLoadError at the second turn. */
  *loadAdapter(): Generator<void, never, void> {
    yield;
    throw new ModelLoadError(
      'adapters are for models that generate text, and this one gives embeddings or scores',
    );
  }

  /** There are none. */
  unloadAdapter(): void {}

  close(): void {
    for (const ops of this.#stages) ops.close();
  }

  #numbersOf({ pooled, computed }: InFlightStep): Float32Array {
    return amongStages(this.#stages, () => {
      for (const mark of computed) mark.read();
      return pooled?.read() ?? NOTHING;
    });
  }

  /** Every rank has the states of all layers: the first one alone makes the numbers. */
  #pool({ step, hidden, queryStarts }: ForwardPass): Pending<Float32Array> | null {
    const complete = step.sequences.flatMap(({ pooling }, index) =>
      pooling ? [{ start: queryStarts[index]!, end: queryStarts[index + 1]! }] : [],
    );
    if (complete.length === 0 || this.#ops.ranks.rank > 0) return null;
    const states = this.#statesOf(hidden, complete);
    return this.#ops.readLater(this.#model.poolingHead?.(this.#ops, states) ?? states);
  }

  /**
   * No step is over before it is computed, even if no numbers are read: its blocks may be free then. Nor is it one where a stage has
   * failed, which on a GPU the next ones do not notice.
   */
  #marks(pooled: Pending<Float32Array> | null): Pending<void>[] {
    const isWaitedFor = pooled === null || this.#stages.length > 1;
    return isWaitedFor ? this.#stages.map((ops) => ops.mark()) : [];
  }

  /** What stands for each sequence, [sequences, hidden]. */
  #statesOf(hidden: Tensor, complete: readonly RowRange[]): Tensor {
    const { rows } = this.#pooling;
    if (rows === 'mean') return this.#meansOf(hidden, complete);
    const chosen = Int32Array.from(complete, ({ start, end }) => (rows === 'cls' ? start : end - 1));
    return this.#model.logits(hidden, chosen);
  }

  /** Of models that are computed whole: each sequence of the step is complete. */
  #meansOf(hidden: Tensor, complete: readonly RowRange[]): Tensor {
    const rows = Int32Array.from({ length: hidden.rows }, (_, row) => row);
    const starts = Int32Array.of(0, ...complete.map(({ end }) => end));
    return this.#ops.meanRows(this.#model.logits(hidden, rows), starts);
  }
}

/** [tokens] 0 for those of a first text, 1 for those of a second. */
function typesOf({ sequences }: ScheduledStep, queryStarts: Int32Array): Int32Array {
  const types = new Int32Array(queryStarts.at(-1)!);
  for (const [index, { pooling }] of sequences.entries()) {
    const second = pooling?.secondTextStart ?? null;
    if (second !== null) types.fill(1, queryStarts[index]! + second, queryStarts[index + 1]);
  }
  return types;
}
