// Flattens a scheduled step into the arrays that ops take: the rows of all sequences, one after the other.

import type { BlockGroups } from '../kv-cache/block-groups.ts';
import type { ForwardInputs } from '../models/model.ts';
import { NO_ADAPTER } from '../ops/lora.ts';
import { type IdLists, type LogitEdits, NO_SLOT, type SamplingRows, type TokenMasks } from '../ops/ops.ts';
import type { StateArrays } from '../ops/states.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import { uniform } from '../sampling/random-stream.ts';
import { maskOf } from '../sampling/token-mask.ts';
import { PENDING_TOKEN, type ScheduledSequence, type ScheduledStep } from '../scheduler/scheduled-step.ts';
import { layOutRows, type SequenceRows } from './lay-out-rows.ts';
import type { RequestStates } from './request-states.ts';
import { ropePlacesOf } from './rope-places.ts';
import { partsOf } from './sequence-parts.ts';

interface ForwardLimits extends BlockGroups {
  readonly shortContext: number | null;
  /** Where layers keep states: slots of those that run; behind them are those of snapshots. */
  readonly maxNumSeqs: number;
}

interface StepForward {
  readonly inputs: ForwardInputs;
  /** [sequences + 1] first row of each sequence of the step. To attention, a sequence may be several. */
  readonly queryStarts: Int32Array;
}

/**
 * `requests` must have been brought up to `step`.
 * @param batchSize sequences at least: those after the step's own have one row each, which is computed for nobody.
 */
export function buildForwardInputs(
  { sequences }: ScheduledStep,
  { blockSize, windows: { length: numGroups }, shortContext, maxNumSeqs }: ForwardLimits,
  requests: RequestStates,
  batchSize = sequences.length,
): StepForward {
  const numFilling = batchSize - sequences.length;
  const parts = sequences.map((sequence) => rowsOfParts(sequence, requests));
  const rows = parts.flat();
  const layout = { blockSize, numGroups, shortContext };
  const { ids, ...arrays } = layOutRows(rows, layout, rows.length + numFilling);
  const sends = Int32Array.from(
    sequences.flatMap(({ send }) =>
      send === null ? [] : [send.transferId, send.firstIndex, send.blocks.length, ...send.blocks],
    ),
  );
  const adapters = sequences.flatMap(({ adapterId }, index) => parts[index]!.map(() => adapterId));
  const inputs = {
    ...arrays,
    tokens: { ids, sampled: requests.latestSampled },
    sends,
    adapters: adaptersOf(adapters, numFilling),
    states: buildStates(sequences, requests, maxNumSeqs, batchSize),
  };
  return { inputs, queryStarts: startsOf(sequences) };
}

/** Several only where no layer keeps a state of a sequence, which would be that of all of it. */
function rowsOfParts(sequence: ScheduledSequence, requests: RequestStates): SequenceRows[] {
  const { requestId, tokenIds, firstPosition, isLong } = sequence;
  const ids = tokenIds.map((id) => (id === PENDING_TOKEN ? requests.pendingToken(requestId) : id));
  const tables = requests.tablesOf(requestId);
  return partsOf(sequence).map(({ first, end, seesAhead }) => ({
    ids: ids.slice(first - firstPosition, end - firstPosition),
    firstPosition: first,
    isLong,
    places: ropePlacesOf({ ...sequence, firstPosition: first, numTokens: end - first }),
    tables,
    seesAhead,
  }));
}

function startsOf(sequences: ScheduledStep['sequences']): Int32Array {
  const starts = new Int32Array(sequences.length + 1);
  for (const [index, { tokenIds }] of sequences.entries())
    starts[index + 1] = starts[index]! + tokenIds.length;
  return starts;
}

function buildStates(
  sequences: ScheduledStep['sequences'],
  requests: RequestStates,
  maxNumSeqs: number,
  batchSize: number,
): StateArrays {
  const [sources, slots] = [new Int32Array(batchSize).fill(NO_SLOT), new Int32Array(batchSize).fill(NO_SLOT)];
  const [saves, moves]: [number[], number[]] = [[], []];
  for (const [index, { requestId, firstPosition, states }] of sequences.entries()) {
    const slot = requests.slotOf(requestId);
    const snapshot = states?.snapshot ?? null;
    slots[index] = slot;
    if (firstPosition > 0) sources[index] = snapshot === null ? slot : maxNumSeqs + snapshot;
    for (const save of states?.saves ?? []) saves.push(index, save.numTokens, maxNumSeqs + save.snapshot);
    if (states?.move) {
      const { way, blocks } = states.move;
      moves.push(sources[index]!, way === 'out' ? 1 : 0, blocks.length, ...blocks);
    }
  }
  return { sources, slots, saves: Int32Array.from(saves), moves: Int32Array.from(moves) };
}

/** Undefined where no sequence has one. */
function adaptersOf(adapterIds: readonly (number | null)[], numFilling: number): Int32Array | undefined {
  if (adapterIds.every((id) => id === null)) return undefined;
  const filling = new Array<number>(numFilling).fill(NO_ADAPTER);
  return Int32Array.from([...adapterIds.map((id) => id ?? NO_ADAPTER), ...filling]);
}

/** How one row of logits is sampled. */
export interface RowSampling {
  readonly sampling: NonNullable<ScheduledSequence['sampling']>;
  /** Of the token to be sampled: a sequence that is computed again draws the same number again. */
  readonly position: number;
}

export function buildSamplingRows(rows: readonly RowSampling[]): SamplingRows {
  return {
    temperature: Float32Array.from(rows, ({ sampling }) => sampling.temperature),
    topK: Int32Array.from(rows, ({ sampling }) => sampling.topK),
    topP: Float32Array.from(rows, ({ sampling }) => sampling.topP),
    minP: Float32Array.from(rows, ({ sampling }) => sampling.minP),
    uniform: Float64Array.from(rows, drawUniform),
  };
}

function drawUniform({ sampling, position }: RowSampling): number {
  const { seed, sample, temperature } = sampling;
  return temperature === 0 ? 0 : uniform(seed, sample, position);
}

/** The edits of all rows that are changed, in the form of the op; null where no row is. */
export function buildLogitEdits(edits: readonly (RowEdits | null)[]): LogitEdits | null {
  const changed = entriesOf(edits, (one) => one.ids.length > 0);
  if (changed.length === 0) return null;
  const lists = buildLists(changed.map(([row, { ids }]) => [row, ids]));
  const biases = new Float32Array(lists.ids.length);
  const counts = new Int32Array(lists.ids.length);
  for (const [index, [, edit]] of changed.entries()) {
    biases.set(edit.biases, lists.starts[index]);
    counts.set(edit.counts, lists.starts[index]);
  }
  return {
    ...lists,
    biases,
    counts,
    repetition: Float32Array.from(changed, ([, { repetition }]) => repetition),
    frequency: Float32Array.from(changed, ([, { frequency }]) => frequency),
    presence: Float32Array.from(changed, ([, { presence }]) => presence),
  };
}

/** A request has the same list at each of its steps. */
const masksOfLists = new WeakMap<Int32Array, Uint32Array>();

/** The same edits: a list of allowed tokens that a mask is shorter than becomes that, since steps copy it. */
export function withShorterMask(edits: RowEdits | null, vocabSize: number): RowEdits | null {
  const list = edits?.allowedTokenIds;
  const numWords = Math.ceil(vocabSize / 32);
  if (!list || list.length <= numWords) return edits;
  const mask = masksOfLists.get(list) ?? maskOf(numWords, list);
  masksOfLists.set(list, mask);
  return { ...edits, mask, allowedTokenIds: null };
}

/** The tokens that restricted rows may sample; null where no row is restricted. */
export function buildAllowedIds(edits: readonly (RowEdits | null)[]): IdLists | null {
  const restricted = entriesOf(edits, ({ allowedTokenIds }) => allowedTokenIds !== null);
  if (restricted.length === 0) return null;
  return buildLists(restricted.map(([row, { allowedTokenIds }]) => [row, allowedTokenIds!]));
}

/** The masks of all rows that have one; null where no row has. */
export function buildTokenMasks(edits: readonly (RowEdits | null)[]): TokenMasks | null {
  const masked = edits.flatMap((one, row) => (one?.mask ? [{ row, mask: one.mask }] : []));
  const [first] = masked;
  if (first === undefined) return null;
  const words = new Uint32Array(masked.length * first.mask.length);
  for (const [index, { mask }] of masked.entries()) words.set(mask, index * mask.length);
  return { rows: Int32Array.from(masked, ({ row }) => row), words };
}

function entriesOf(
  edits: readonly (RowEdits | null)[],
  isWanted: (edits: RowEdits) => boolean,
): [row: number, edits: RowEdits][] {
  return edits.flatMap((one, row) => (one !== null && isWanted(one) ? [[row, one]] : []));
}

function buildLists(lists: readonly (readonly [row: number, ids: ArrayLike<number>])[]): IdLists {
  const starts = new Int32Array(lists.length + 1);
  for (const [index, [, list]] of lists.entries()) starts[index + 1] = starts[index]! + list.length;
  const ids = new Int32Array(starts[lists.length]!);
  for (const [index, [, list]] of lists.entries()) ids.set(list, starts[index]);
  return { rows: Int32Array.from(lists, ([row]) => row), starts, ids };
}
