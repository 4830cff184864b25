// Blocks from GPU to GPU of one host, over the emulated driver: what holds of cuda-ipc beyond native-transfer.test.ts.

import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import { needsCudaEmulator } from '../helpers/cuda-emulator.ts';
import { CUDA_EMULATOR } from '../helpers/emulator-files.ts';
import {
  range,
  type Shape,
  type TransferNode,
  transferNodes,
  wholeMemory,
} from '../helpers/transfer-node.ts';
import { transferProcesses } from '../helpers/transfer-process.ts';
import { until } from '../helpers/until.ts';

const SHAPE = { layers: 2, blocks: 16, layerBlockBytes: 512 };
const BIG = { layers: 4, blocks: 64, layerBlockBytes: 65_536 };
const BLOCK_BYTES = SHAPE.layers * SHAPE.layerBlockBytes;

const makeNode = transferNodes();
const node = (shape: Shape = SHAPE, deviceBytes?: number) =>
  makeNode(shape, undefined, CUDA_EMULATOR, deviceBytes);
const start = transferProcesses();
afterEach(() => {
  vi.unstubAllEnvs();
});

/** Memory of emulated GPUs that this process has mapped. */
function mapped(): number {
  return readFileSync('/proc/self/maps', 'utf8').match(/svc-emulated-gpu/g)?.length ?? 0;
}

/** Sends the first `count` blocks of `p`, which are saved. */
async function send(p: TransferNode, d: TransferNode, count: number, ticket = 1n): Promise<void> {
  const link = await p.link('cuda-ipc', d.address('cuda-ipc'));
  d.receive(ticket, count);
  p.engine.openSend(1, count);
  p.engine.grant(1, link, ticket, 0);
  p.save(1, 0, range(count));
}

describe('blocks over cuda-ipc', needsCudaEmulator, () => {
  it('are counted as such, and never pass the host', async () => {
    // Copies to and from the host fail from the first one on.
    const [p, d] = [node(), node()];
    p.fill(range(4), 1);
    vi.stubEnv('SVC_EMULATED_COPIES', '0');
    const other = node();
    await send(p, d, 4);
    expect(await d.load(1n, range(4, 8))).toBe(true);
    other.close();
    expect([p.engine.bytesSentOver('cuda-ipc'), p.engine.bytesSent]).toEqual([
      4 * BLOCK_BYTES,
      4 * BLOCK_BYTES,
    ]);
    vi.unstubAllEnvs();
    node();
    expect(d.read(range(4, 8)).equals(p.read(range(4)))).toBe(true);
  });

  it('come to memory of the host where the receive memory of the GPU ends', async () => {
    const [p, d] = [node(), node(SHAPE, 3 * BLOCK_BYTES)];
    p.fill(range(6), 2);
    await send(p, d, 6);
    expect(await d.load(1n, range(6, 8))).toBe(true);
    expect(d.read(range(6, 8)).equals(p.read(range(6)))).toBe(true);
  });

  it('that changed on their way into a KV block are not used', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(4), 3);
    await send(p, d, 2, 1n);
    await d.event('received', ({ ticket }) => ticket === 1n);
    // Other blocks come to the same places.
    p.engine.openSend(2, 2);
    d.receive(2n, 2);
    p.engine.grant(2, await p.link('cuda-ipc', d.address('cuda-ipc')), 2n, 0);
    p.save(2, 0, [2, 3]);
    await d.event('received', ({ ticket }) => ticket === 2n);
    expect([await d.load(1n, [10, 11]), await d.load(2n, [10, 11])]).toEqual([false, true]);
    expect(d.events).toContainEqual({ type: 'corrupt', ticket: 1n });
    expect(d.read([10, 11]).equals(p.read([2, 3]))).toBe(true);
  });

  it('of which one bit changes on its way are noticed, and can be sent again', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(4), 4);
    // The second copy is that of the second layer.
    vi.stubEnv('SVC_EMULATED_FLIPS', '2');
    await send(p, d, 4);
    expect((await d.event('corrupt')).ticket).toBe(1n);
    await until(() => d.engine.progress(1n) === 7);
    vi.unstubAllEnvs();
    p.engine.grant(1, 1, 1n, 0);
    await d.event('received');
    expect(await d.load(1n, range(4, 8))).toBe(true);
    expect(d.read(range(4, 8)).equals(p.read(range(4)))).toBe(true);
  });

  it('are copied to their places once where they come twice at once', async () => {
    const [p, d] = [node(), node()];
    p.fill(range(8), 6);
    const link = await p.link('cuda-ipc', d.address('cuda-ipc'), 1);
    d.receive(1n, 4);
    for (const send of [1, 2]) {
      p.engine.openSend(send, 4);
      p.save(send, 0, range(4, 4 * (send - 1)));
    }
    for (const send of [1, 2]) p.engine.grant(send, link, 1n, 0);
    for (const send of [1, 2]) await p.event('sent', (event) => event.send === send);
    expect(await d.load(1n, range(4, 8))).toBe(true);
    expect(d.read(range(4, 8)).equals(p.read(range(4)))).toBe(true);
    expect([d.has('corrupt'), d.engine.progress(1n)]).toEqual([false, 8]);
  });

  it('are not listened for where no other process can map the memory, or it is none of a GPU', () => {
    vi.stubEnv('SVC_EMULATED_DESCRIPTORS', '0');
    expect(node().engine.endpoints['cuda-ipc']).toBeUndefined();
    const { KvMemory, TransferEngine } = loadNative();
    const listen = (memory: bigint) => () =>
      new TransferEngine(
        wholeMemory(memory, 1),
        { receiveBytes: 0, tcp: null, shm: false, cudaIpc: 'required' },
        () => {},
      );
    const { SVC_CUDA_DRIVER, SVC_CUDA_KERNELS } = CUDA_EMULATOR;
    expect(listen(new KvMemory(1, 1, 64, SVC_CUDA_DRIVER, SVC_CUDA_KERNELS).share())).toThrow(
      'the memory of this GPU cannot be shared with other processes: use the transport auto, shm or tcp',
    );
    expect(listen(new KvMemory(1, 1, 64).share())).toThrow(
      /this KV cache is memory of the host: use --device cuda/,
    );
  });

  it('have no link where their kernels are missing, which says why', async () => {
    const [p, d] = [
      makeNode(SHAPE, undefined, { ...CUDA_EMULATOR, SVC_CUDA_KERNELS: '/nowhere.so' }),
      node(),
    ];
    const link = await p.link('cuda-ipc', d.address('cuda-ipc'));
    d.receive(1n, 1);
    p.engine.openSend(1, 1);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, [0]);
    expect((await p.event('linkDown')).reason).toMatch('the kernels are not built (no /nowhere.so)');
  });

  it('leave no mappings', async () => {
    const d = node();
    const before = mapped();
    for (let i = 0; i < 3; i++) {
      const p = node();
      await send(p, d, 1, BigInt(i));
      expect(await d.load(BigInt(i), [i])).toBe(true);
      expect(mapped()).toBeGreaterThan(before);
      p.engine.disconnect(1);
      p.close();
    }
    // Its own memory stays until it is collected; that of others goes with their links.
    await until(() => mapped() <= before + 3 * 2);
  });
});

describe('a process at the other end of cuda-ipc', needsCudaEmulator, () => {
  it('that is killed calls the link down at once', async () => {
    const [p, child] = [node(BIG), await start(BIG, CUDA_EMULATOR)];
    await child.obey({ do: 'receive', count: 64 });
    const link = await p.link('cuda-ipc', child.address('cuda-ipc'));
    p.engine.openSend(1, 64);
    p.engine.grant(1, link, 1n, 0);
    p.save(1, 0, range(32));
    await until(() => p.engine.bytesSent > 0);
    child.signal('SIGKILL');
    await p.event('linkDown');
    p.engine.closeSend(1);
    await p.event('sendClosed');
  });

  it('that is killed while it sends leaves the receiver as it was, and its memory goes', async () => {
    const [d, child] = [node(BIG), await start(BIG, CUDA_EMULATOR)];
    const before = mapped();
    d.receive(1n, 64);
    await child.obey({ do: 'send', kind: 'cuda-ipc', address: d.address('cuda-ipc'), count: 60 });
    await until(() => d.engine.progress(1n) > 0);
    expect(mapped()).toBe(before + 1);
    const loading = d.load(1n, range(60));
    child.signal('SIGKILL');
    await child.ended();
    d.engine.closeReceive(1n);
    expect(await loading).toBe(false);
    await d.event('receiveClosed');
    await until(() => mapped() === before);
  });

  it('that is stopped holds nobody up', async () => {
    const [d, child] = [node(BIG), await start(BIG, CUDA_EMULATOR)];
    d.receive(1n, 64);
    await child.obey({ do: 'send', kind: 'cuda-ipc', address: d.address('cuda-ipc'), count: 60 });
    await until(() => d.engine.progress(1n) > 0);
    await child.stop();
    const p = node(BIG);
    p.fill(range(4), 7);
    await send(p, d, 4, 2n);
    expect(await d.load(2n, range(4, 8))).toBe(true);
    expect(d.read(range(4, 8)).equals(p.read(range(4)))).toBe(true);
    child.signal('SIGCONT');
  });
});
