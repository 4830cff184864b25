// The executor that runs the model, or the slice that a rank has of it, in the thread that calls it. Hands each step to the backend:
// forward pass, log-probabilities of known tokens, sampling, which rank 0 does for all. Owns the KV memory, and keeps the block tables of the requests.

import type { KvMemoryPart } from '../kv-transfer/connector.ts';
import {
  type AdapterSpec,
  type LoadedAdapter,
  loadAdapter,
  unloadAdapter,
} from '../models/adapters/load-adapter.ts';
import type { Model } from '../models/model.ts';
import type { Ops, Pending } from '../ops/ops.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import {
  numSampledRows,
  type ScheduledStep,
  type StepResult,
  type TileWork,
} from '../scheduler/scheduled-step.ts';
import { buildForwardInputs } from './batch-inputs.ts';
import type { DraftModel } from './draft-model.ts';
import { EncodedImages } from './encoded-images.ts';
import type { EngineInfo, Executor } from './executor.ts';
import { amongStages } from './failure-of-stages.ts';
import type { KvMemory } from './kv-memory.ts';
import { type LaunchedForward, launchForward } from './launch-forward.ts';
import { computeKnownLogprobs, type KnownLogprobs } from './prompt-logprobs.ts';
import { RequestStates } from './request-states.ts';
import { type SampledRows, sampleRows } from './sample-rows.ts';
import { type InFlightStep, readStep } from './step-result.ts';

/** What a rank that is not the first knows of them. */
const NO_LOGPROBS: Pending<readonly null[]> = { read: () => [] };

/** A forward pass that has been started and not sampled yet. */
interface ForwardPass extends LaunchedForward {
  readonly step: ScheduledStep;
  readonly queryStarts: Int32Array;
  readonly knownLogprobs: Pending<KnownLogprobs>;
}

export class ModelRunner implements Executor {
  readonly info: EngineInfo;
  readonly draftModel: DraftModel | null;
  readonly adapters: readonly LoadedAdapter[];
  /** That of the stage that samples. */
  readonly #ops: Ops;
  readonly #stages: readonly Ops[];
  readonly #model: Model;
  readonly #kv: KvMemory;
  readonly #onWarning: (message: string) => void;
  readonly #requests = new RequestStates();
  /** Null where the model reads only text. */
  readonly #images: EncodedImages | null;
  /** Between `forward` and `sample`, else null. */
  #pass: ForwardPass | null = null;
  /** Steps that have not been read, the oldest first. */
  readonly #inFlight: InFlightStep[] = [];

  /** @param stages what the stages of the model are computed on; one where it is in one piece */
  constructor(
    info: EngineInfo,
    stages: readonly Ops[],
    model: Model,
    kv: KvMemory,
    draftModel: DraftModel | null,
    adapters: readonly LoadedAdapter[] = [],
    onWarning: (message: string) => void = () => {},
  ) {
    this.info = info;
    this.#ops = stages.at(-1)!;
    this.#stages = stages;
    this.#model = model;
    this.#kv = kv;
    this.#images = model.imageEncoder && new EncodedImages(model.imageEncoder);
    this.draftModel = draftModel;
    this.adapters = adapters;
    this.#onWarning = onWarning;
  }

  get kvParts(): readonly KvMemoryPart[] {
    return this.#kv.parts;
  }

  get busySeconds(): number | null {
    // Later stages wait for it.
    return this.#stages[0]!.busySeconds;
  }

  see(work: readonly TileWork[]): void {
    amongStages(this.#stages, () => this.#images?.see(work));
  }

  forward(step: ScheduledStep, planPoint: number): void {
    this.#requests.apply(step);
    const { inputs, queryStarts } = buildForwardInputs(
      step,
      this.info,
      this.#requests,
      this.#batchSize(step),
    );
    const launched = amongStages(this.#stages, () => {
      const imageRows = this.#images?.rowsOf(step, queryStarts);
      return launchForward(this.#ops, this.#model, this.#kv.cache, { ...inputs, imageRows }, planPoint);
    });
    const knownLogprobs = computeKnownLogprobs(this.#ops, this.#model, launched.hidden, step, queryStarts);
    this.#pass = { ...launched, step, queryStarts, knownLogprobs };
  }

  sample(edits: readonly (RowEdits | null)[]): void {
    const pass = this.#pass;
    if (pass === null) throw new Error('no forward pass has been started to sample from');
    this.#pass = null;
    try {
      const sampled = amongStages(this.#stages, () => this.#sampleLastRows(pass, edits));
      if (sampled !== null) this.#requests.noteSampled(pass.step, sampled.tokens);
      const { step, planPoint, knownLogprobs } = pass;
      // No step is over before it is computed, even if nothing is sampled: its blocks may be free then. Nor is it one where a stage has
      // failed, which on a GPU the next ones do not notice.
      const isWaitedFor = sampled === null || this.#stages.length > 1;
      const computed = isWaitedFor ? this.#stages.map((ops) => ops.mark()) : [];
      this.#inFlight.push({ step, planPoint, sampled, knownLogprobs, computed });
    } finally {
      pass.scope.close();
    }
  }

  awaitPlanPoint(): void {
    this.#inFlight[0]?.planPoint.read();
  }

  read(): StepResult {
    for (const ops of this.#stages) {
      const warning = ops.takeWarning();
      if (warning !== null) this.#onWarning(warning);
    }
    const oldest = this.#inFlight.shift();
    if (oldest === undefined) throw new Error('no step is in flight to be read');
    return amongStages(this.#stages, () => readStep(oldest));
  }

  loadAdapter(spec: AdapterSpec): Generator<void, LoadedAdapter, void> {
    return loadAdapter(spec, this.#model);
  }

  unloadAdapter(adapterId: number): void {
    unloadAdapter(adapterId, this.#model.loraTargets);
  }

  close(): void {
    for (const ops of this.#stages) ops.close();
    this.draftModel?.close();
  }

  /** Steps of single tokens come again and again, and may have rows more for it. */
  #batchSize({ sequences, numTokens }: ScheduledStep): number {
    return numTokens === sequences.length ? this.#ops.paddedBatch(numTokens) : sequences.length;
  }

  /**
   * Each sequence samples from its last rows, one after each token of its draft, too. Null where none samples. A rank that is not the
   * first takes the tokens of that, which alone knows the edits.
   */
  #sampleLastRows(
    { step, hidden, queryStarts }: ForwardPass,
    edits: readonly (RowEdits | null)[],
  ): SampledRows | null {
    const rows = step.sequences.flatMap((sequence, index) => {
      const [count, end] = [numSampledRows(sequence), queryStarts[index + 1]!];
      const endPosition = sequence.firstPosition + sequence.tokenIds.length;
      return Array.from({ length: count }, (_, place) => ({
        row: end - count + place,
        sampling: sequence.sampling!,
        position: endPosition - count + place + 1,
      }));
    });
    if (rows.length === 0) return null;
    const logits = this.#model.logits(
      hidden,
      Int32Array.from(rows, ({ row }) => row),
    );
    if (this.#ops.ranks.rank > 0) {
      return { tokens: this.#ops.shareSampled(null, rows.length), logprobs: NO_LOGPROBS };
    }
    const sampled = rows.map((one, index) => ({ ...one, edits: edits[index]! }));
    const { tokens, logprobs } = sampleRows(this.#ops, logits, sampled);
    return { tokens: this.#ops.shareSampled(tokens, rows.length), logprobs };
  }
}
