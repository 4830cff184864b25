// Hidden states on their way from the GPU of one stage to that of the next. The emulated driver refuses copies of memory that a kernel may still use.

import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import type { Ops, Tensor } from '../../src/ops/ops.ts';
import type { RankSeat } from '../../src/ops/ranks.ts';
import { selectStages } from '../../src/ops/select.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { openBackend } from '../helpers/backends.ts';
import { needsCudaEmulators } from '../helpers/cuda-emulator.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { open, openGroup } from './rank-cases.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

beforeEach(() => void vi.stubEnv('SVC_EMULATED_GPUS', '2'));
afterEach(() => {
  for (const one of open.splice(0)) one.close();
  vi.unstubAllEnvs();
});

const options = (numStages: number) =>
  ({ ...ENGINE_DEFAULTS, device: 'cuda', pipelineParallelSize: numStages }) as const;

type Stages = [first: Ops, second: Ops];

function openStages(seats?: readonly RankSeat[]): Stages {
  const { stages } = selectStages(options(2), seats);
  open.push(...stages);
  return [stages[0]!, stages[1]!];
}

const K = 256;

/** An op that takes a while: a product whose sums are `value` times K. */
function slowOp(ops: Ops): (value: number) => Tensor {
  const weight = ops.loadLinear([plainPart(folder.write([K, K], new Float32Array(K * K).fill(1)))], 'bf16');
  return (value) => ops.linear(ops.tensor(new Float32Array(64 * K).fill(value), 64, K, 'bf16'), weight);
}

describe('a link between the stages of two GPUs', needsCudaEmulators, () => {
  it.each([
    ['that are connected', '1'],
    ['that are not', '0'],
  ])('%s carries in order what ops will have made, while the sender goes on', (_, peers) => {
    vi.stubEnv('SVC_EMULATED_PEERS', peers);
    const [first, second] = openStages();
    const link = second.makeStageLink(3);
    const make = slowOp(first);
    for (const values of [
      [1, 2, 3],
      [4, 5, 6],
    ]) {
      for (const value of values) first.scope(() => first.sendHidden(link, make(value)));
      for (const value of values) {
        const received = second.scope(() => second.read(second.receiveHidden(link, 64, K)));
        expect(received).toEqual(new Float32Array(64 * K).fill(value * K));
      }
    }
    const columns = Float32Array.from({ length: 10 }, (_, index) => index);
    first.scope(() => first.sendHidden(link, first.split(first.tensor(columns, 2, 5, 'f32'), [2, 3])[1]!));
    const received = second.scope(() => second.read(second.receiveHidden(link, 2, 3)));
    expect([...received]).toEqual([2, 3, 4, 7, 8, 9]);
  });

  it('does not use memory again that the receiver has not copied', () => {
    const [first, second] = openStages();
    const link = second.makeStageLink(1);
    // Before all else: to take memory, a driver waits for what was given to it.
    const tensors = [1, 2, 3, 4, 5].map((value) => first.tensor(Float32Array.of(value, 2), 1, 2, 'f32'));
    const large = second.tensor(new Float32Array(2 ** 20), 2 ** 10, 2 ** 10, 'f32');
    const send = (value: number) => first.scope(() => first.sendHidden(link, tensors[value - 1]!));
    const receive = () => second.scope(() => second.read(second.receiveHidden(link, 1, 2)));
    const noRoom = /given more steps than it may have waiting/;
    send(1);
    expect(() => send(2)).toThrow(noRoom);
    expect(receive()).toEqual(Float32Array.of(1, 2));
    send(3);
    // It lasts far longer than what the host does meanwhile.
    for (let time = 0; time < 4; time += 1) second.scale(large, 1);
    second.scope(() => {
      const received = second.receiveHidden(link, 1, 2);
      expect(() => send(4)).toThrow(noRoom);
      expect(second.read(received)).toEqual(Float32Array.of(3, 2));
    });
    send(5);
    expect(receive()).toEqual(Float32Array.of(5, 2));
  });

  it('has memory for as many of the largest tensor as may be on their way', () => {
    const [first, second] = openStages();
    const link = second.makeStageLink(2);
    const carry = (rows: number): number => {
      const before = first.freeMemory();
      first.scope(() => first.sendHidden(link, first.tensor(new Float32Array(rows * K), rows, K, 'f32')));
      second.scope(() => second.read(second.receiveHidden(link, rows, K)));
      return before - first.freeMemory();
    };
    // Arrays of the host and the arena take theirs.
    for (let step = 0; step < 2; step += 1) carry(1);
    const large = carry(2048);
    expect(large).toBeGreaterThanOrEqual(2048 * K * 4);
    expect(carry(1)).toBeGreaterThan(2000 * K * 4);
    for (const rows of [2048, 1, 2048]) expect(carry(rows)).toBe(0);
  });

  it('gives nothing that was not sent, or has another shape, and takes nothing of another kind', () => {
    const [first, second] = openStages();
    const link = second.makeStageLink(2);
    expect(() => second.receiveHidden(link, 1, 2)).toThrow(/what was not sent/);
    const send = (ops: Ops) =>
      ops.scope(() => ops.sendHidden(link, ops.tensor(Float32Array.of(1, 2), 1, 2, 'f32')));
    send(first);
    expect(() => second.receiveHidden(link, 2, 1)).toThrow(/of another step/);
    const cpu = openBackend('cpu');
    open.push(cpu);
    expect(() => send(cpu)).toThrow(/on devices of one kind/);
    second.close();
    expect(() => send(first)).toThrow(/that of a closed one/);
  });

  it('ends with either of the two, whatever is on its way', () => {
    for (const last of [0, 1]) {
      const stages = openStages();
      const link = stages[1].makeStageLink(20);
      const make = slowOp(stages[0]);
      for (let value = 0; value < 20; value += 1)
        stages[0].scope(() => stages[0].sendHidden(link, make(value)));
      stages[1].scope(() => stages[1].receiveHidden(link, 64, K));
      stages[1 - last]!.close();
      expect(() => stages[last]!.mark().read()).not.toThrow();
      stages[last]!.close();
    }
  });
});

describe('the GPUs of stages', needsCudaEmulators, () => {
  it.each<[string, Record<string, string>, RegExp]>([
    [
      'fewer',
      { SVC_EMULATED_GPUS: '3' },
      /^--pipeline-parallel-size 2 and --tensor-parallel-size 2 need 4 GPUs, .* shows 3: .*CUDA_VISIBLE_DEVICES .*ask for fewer/,
    ],
    [
      'unlike',
      { SVC_EMULATED_GPUS: '4', SVC_EMULATED_CAPABILITY: '90,90,90,80' },
      /^--pipeline-parallel-size 2 and .* GPUs of one kind, and GPU 0 is .*\(sm_90\), GPU 3 is .*\(sm_80\)/,
    ],
  ])('are refused where they are %s', (_, variables, why) => {
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    const select = () => {
      const groups = [openGroup(2), openGroup(2)];
      const seats = groups.map((group) => group.seats[1]!);
      return selectStages(options(2), seats);
    };
    expect(select).toThrow(ConfigError);
    expect(select).toThrow(why);
  });
});
