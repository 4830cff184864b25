// P and D on this GPU, over each transport: whether blocks come as they were, and how fast. To be held against the copies of `experiments`.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { builtCudaKernels, cudaDriver } from '../../src/native/native.ts';
import { measureTransfers } from './measure-transfers.ts';
import { failed, missing, report } from './result.ts';
import { ON_ONE_GPU } from './several-gpus.ts';
import { ncclPath } from './stand-in.ts';

/** A prompt of 2048 tokens of Llama-3.1-8B. */
const SHAPE = { layers: 32, blocks: 128, layerBlockBytes: 65_536 };
const KINDS = ['cuda-ipc', 'shm', 'tcp', 'nccl'] as const;
const SECONDS = 18;

const kind = KINDS.find((one) => one === process.argv[2]);
if (kind === undefined) runEach();
else {
  const libraries = { driver: cudaDriver(), kernels: process.env.SVC_CUDA_KERNELS ?? builtCudaKernels() };
  const nccl = kind === 'nccl' ? ncclPath() : '';
  const otherEnv: NodeJS.ProcessEnv = {};
  if (kind === 'nccl') {
    Object.assign(process.env, ON_ONE_GPU, { NCCL_HOSTID: 'host-of-p' });
    otherEnv.NCCL_HOSTID = 'host-of-d';
  }
  report(await measureTransfers(kind, SHAPE, { ...libraries, nccl }, otherEnv));
}

/** Each in a process of its own: after an error of the GPU nothing more can be computed in one. */
function runEach(): void {
  for (const one of KINDS) {
    const { error, status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--import', 'tsx', fileURLToPath(import.meta.url), one],
      { encoding: 'utf8', timeout: 1000 * SECONDS },
    );
    process.stdout.write(stdout);
    if (error === undefined && status === 0) continue;
    const reason = error?.message ?? stderr.trim().split('\n').slice(-12).join('\n');
    report(/NCCL is not there/.test(reason) ? missing(one, reason) : failed(one, reason));
  }
}
