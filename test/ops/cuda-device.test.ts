// Whether this machine can compute on a GPU, and what a person is told where it cannot.

import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EngineConfig } from '../../src/config/engine-config.ts';
import { ConfigError, NotAvailableError } from '../../src/errors.ts';
import { loadNative, probeNative } from '../../src/native/native.ts';
import { compileCached } from '../../src/ops/native/cuda-kernels.ts';
import { selectOps } from '../../src/ops/select.ts';
import { needsCudaEmulator } from '../helpers/cuda-emulator.ts';
import { CUDA_EMULATOR } from '../helpers/emulator-files.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needs, needsNative } from '../helpers/needs.ts';

const native = fileURLToPath(new URL('../../native', import.meta.url));

const select = (device: 'auto' | 'cuda') => selectOps({ ...ENGINE_DEFAULTS, device, numThreads: 1 });

function expectRefusal(message: RegExp): void {
  const open = () => select('cuda').ops.close();
  expect(open).toThrow(ConfigError);
  expect(open).toThrow(/^--device cuda is not possible here: (?:.|\n)*; or use --device cpu$/);
  expect(open).toThrow(message);
}

afterEach(() => vi.unstubAllEnvs());

describe('--device cuda', needsNative, () => {
  it('says that there is no driver, and how to get one', () => {
    vi.stubEnv('SVC_CUDA_DRIVER', '/nowhere/libcuda.so.1');
    expectRefusal(
      /driver is not there \(\/nowhere\/libcuda.so.1: cannot open.*install driver 580.*--gpus all/,
    );
  });

  it('says which function a driver lacks that is too old', () => {
    vi.stubEnv('SVC_CUDA_DRIVER', 'libm.so.6');
    expectRefusal(/driver is too old \(it has no cuInit\): install driver 580 or newer/);
  });

  it('leaves auto on the processor where no driver is, without a word of it', () => {
    vi.stubEnv('SVC_CUDA_DRIVER', '/nowhere/libcuda.so.1');
    const { ops, reason } = select('auto');
    expect([ops.backend, reason]).toEqual(['cpu', 'the native addon is built']);
    ops.close();
  });
});

describe('--device cuda with a driver', needsCudaEmulator, () => {
  it.each<[string, string, string, RegExp]>([
    ['no GPU', 'SVC_EMULATED_GPUS', '0', /driver but no GPU \(CUDA_ERROR_NO_DEVICE/],
    ['an old driver', 'SVC_EMULATED_CUDA', '11080', /too old \(for CUDA 11\.8\): .* for CUDA 12\.3/],
    ['an old GPU', 'SVC_EMULATED_CAPABILITY', '75', /emulated GPU is too old: .*compute capability 8\.0/],
    [
      'no kernels',
      'SVC_CUDA_KERNELS',
      '/nowhere/k.fatbin',
      /not built \(no \/nowhere\/k\.fatbin\).*nvcc.*npm run build/,
    ],
    [
      'other kernels',
      'SVC_CUDA_KERNELS',
      CUDA_EMULATOR.SVC_CUDA_DRIVER,
      /lack svcEmbedding, .*svcSample\): run/,
    ],
  ])('and %s says so', (_, variable, value, message) => {
    vi.stubEnv(variable, value);
    expectRefusal(message);
  });

  it('computes on the GPU, and says so', () => {
    const { ops, reason } = select('cuda');
    expect([ops.backend, ops.isa, ops.description, reason]).toEqual([
      'cuda',
      'cuda sm_90',
      'emulated GPU, sm_90',
      'asked for by --device cuda',
    ]);
    ops.close();
  });

  it.each(['FLASH_ATTN', 'FLASHINFER'] as const)(
    'is what auto computes %s on, and nothing else is',
    (backend) => {
      const options = {
        ...ENGINE_DEFAULTS,
        device: 'auto',
        attention: { backend, isForPrefill: true },
      } as const;
      const { ops } = selectOps(options);
      expect(ops.backend).toBe('cuda');
      ops.close();
      vi.stubEnv('SVC_EMULATED_GPUS', '0');
      expect(() => selectOps(options)).toThrow(NotAvailableError);
      expect(() => selectOps(options)).toThrow(/none to use; not on a GPU: .*no GPU.*: use CPU_ATTN or auto/);
    },
  );

  it('is what auto computes on', () => {
    const { ops, reason } = select('auto');
    expect([ops.backend, reason]).toEqual(['cuda', 'found by --device auto']);
    ops.close();
  });

  it.each<[string, Partial<EngineConfig>, Record<string, string>, RegExp]>([
    ['a GPU that is too old', {}, { SVC_EMULATED_CAPABILITY: '75' }, /emulated GPU is too old/],
    ['kernels that are not there', {}, { SVC_CUDA_KERNELS: '/nowhere/k.fatbin' }, /k\.fatbin/],
    [
      'an option of the processor',
      { attention: { backend: 'CPU_ATTN', isForPrefill: true } },
      {},
      /CPU_ATTN/,
    ],
  ])('leaves auto on the processor with %s, and the start says why', (_, options, env, why) => {
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    const { ops, reason } = selectOps({ ...ENGINE_DEFAULTS, device: 'auto', numThreads: 1, ...options });
    expect([ops.backend, reason]).toEqual(['cpu', expect.stringMatching(/; not on a GPU: /)]);
    expect(reason).toMatch(why);
    ops.close();
  });
});

describe('the kernels that a GPU computes with', needsCudaEmulator, () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(os.tmpdir(), 'svc-kernels-'));
    vi.stubEnv('XDG_CACHE_HOME', join(folder, 'cache'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const emulated = (name: string) => {
    const path = join(folder, name);
    cpSync(CUDA_EMULATOR.SVC_CUDA_KERNELS, path);
    return path;
  };
  function isaOf(): string {
    const { ops } = select('cuda');
    ops.close();
    return ops.isa;
  }

  it('are PTX where the driver is too old for the machine code beside it, and bear the name of the driver', () => {
    vi.stubEnv('SVC_CUDA_KERNELS', emulated('k.fatbin'));
    expect(isaOf()).toBe('cuda sm_90');
    vi.stubEnv('SVC_EMULATED_CUDA', '12040');
    expectRefusal(/not for emulated GPU with this driver .*no PTX is beside them.*driver 580/);
    emulated('k.ptx');
    expect(isaOf()).toBe('cuda sm_90 driver 12040');
  });

  it('bear the name of the driver where it compiles what the machine code lacks', () => {
    vi.stubEnv('SVC_EMULATED_CAPABILITY', '110');
    vi.stubEnv('SVC_EMULATED_PTX', '80');
    expect(isaOf()).toBe('cuda sm_110 driver 13000');
  });

  describe('where they are not built', () => {
    beforeEach(() => {
      // Kernels are looked for beside the addon.
      const addon = join(folder, 'svc.node');
      cpSync(join(native, 'build/svc.node'), addon);
      vi.stubEnv('SVC_NATIVE_ADDON', addon);
      vi.stubEnv('SVC_CUDA_KERNELS', undefined);
    });

    it('cannot be had without a compiler, and the message says how to get one', () => {
      vi.stubEnv('SVC_NVRTC', '/nowhere/libnvrtc.so.13');
      expectRefusal(/not built \(no .*fatbin\).*nvcc.*npm run build.*NVRTC.*nowhere.*cannot open/);
      vi.stubEnv('SVC_NVRTC', 'libm.so.6');
      expectRefusal(/compiler of kernels is too old \(it has no nvrtcVersion\)/);
    });

    it('are what NVRTC makes of the sources, once, and bear its name', () => {
      vi.stubEnv('SVC_NVRTC', standIn(folder, CUDA_EMULATOR.SVC_CUDA_KERNELS));
      expect(isaOf()).toBe('cuda sm_90 nvrtc 13.7');
      const cache = join(folder, 'cache/svc/cuda-kernels');
      expect(readdirSync(cache)).toEqual([expect.stringMatching(/^sm_90a-[0-9a-f]{32}\.cubin$/)]);
      // What is there already is not compiled again.
      vi.stubEnv('STAND_IN_FAILS', '1');
      expect(isaOf()).toBe('cuda sm_90 nvrtc 13.7');
      vi.stubEnv('SVC_EMULATED_CAPABILITY', '80');
      expectRefusal(/the kernels do not compile \(a reason\):\nline 1 of 10 or more headers/);
    });

    it('are not made by a compiler that is newer than the driver', () => {
      vi.stubEnv('SVC_NVRTC', standIn(folder, CUDA_EMULATOR.SVC_CUDA_KERNELS));
      vi.stubEnv('SVC_EMULATED_CUDA', '12090');
      expectRefusal(/is of CUDA 13\.7, whose code this driver does not take/);
    });

    it('take a bounded place in the cache folder', () => {
      const library = standIn(folder, CUDA_EMULATOR.SVC_CUDA_KERNELS);
      const sources = join(folder, 'sources');
      mkdirSync(sources);
      for (let i = 0; i < 12; i += 1) {
        writeFileSync(join(sources, 'one.cu'), `// ${i}`);
        expect(existsSync(compileCached(loadNative(), library, '13.7', 90, 'bf16', sources))).toBe(true);
      }
      expect(readdirSync(join(folder, 'cache/svc/cuda-kernels')).length).toBe(8);
    });
  });
});

/** A library with the functions of NVRTC, whose code is the bytes of a file. */
function standIn(folder: string, code: string): string {
  const [source, library] = [join(folder, 'nvrtc.c'), join(folder, 'libnvrtc.so')];
  writeFileSync(
    source,
    `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int headers;
int nvrtcVersion(int* major, int* minor) { *major = 13; *minor = 7; return 0; }
const char* nvrtcGetErrorString(int status) { return status ? "a reason" : "none"; }
int nvrtcCreateProgram(void** p, const char* s, const char* n, int count, const char** h, const char** i) { headers = count; *p = &headers; return 0; }
int nvrtcDestroyProgram(void** p) { return 0; }
int nvrtcCompileProgram(void* p, int count, const char** options) { return getenv("STAND_IN_FAILS") ? 6 : 0; }
static const char* text(void) { return headers >= 10 ? "line 1 of 10 or more headers" : "few headers"; }
int nvrtcGetProgramLogSize(void* p, size_t* n) { *n = strlen(text()) + 1; return 0; }
int nvrtcGetProgramLog(void* p, char* to) { strcpy(to, text()); return 0; }
int nvrtcGetCUBINSize(void* p, size_t* n) { FILE* f = fopen("${code}", "r"); fseek(f, 0, SEEK_END); *n = ftell(f); fclose(f); return 0; }
int nvrtcGetCUBIN(void* p, char* to) { FILE* f = fopen("${code}", "r"); while (!feof(f)) to += fread(to, 1, 65536, f); fclose(f); return 0; }
`,
  );
  const made = spawnSync('gcc', ['-shared', '-fPIC', '-o', library, source], { encoding: 'utf8' });
  expect(made).toMatchObject({ status: 0, stderr: '' });
  return library;
}

const nvrtc = [process.env.SVC_NVRTC ?? 'libnvrtc.so.13', '/usr/local/cuda/lib64/libnvrtc.so.13'].find(
  (library) => probeNative()?.nvrtc(library).missing === undefined,
);

describe(
  "NVIDIA's compiler as a library",
  needs(probeNative() !== null && nvrtc !== undefined, 'no libnvrtc.so.13'),
  () => {
    let folder: string;
    beforeEach(() => {
      folder = mkdtempSync(join(os.tmpdir(), 'svc-nvrtc-'));
      vi.stubEnv('XDG_CACHE_HOME', folder);
      // All headers, and one source: all of them take several seconds.
      const names = readdirSync(join(native, 'cuda')).filter((name) => !name.endsWith('.cu'));
      for (const name of [...names, 'norm.cu']) {
        cpSync(join(native, 'cuda', name), join(folder, 'sources', name));
      }
    });
    afterEach(() => rmSync(folder, { recursive: true }));

    const compile = () => compileCached(loadNative(), nvrtc!, '13', 90, 'bf16', join(folder, 'sources'));

    it('compiles kernels that include no header of a toolkit', () => {
      const code = readFileSync(compile());
      expect(code.subarray(0, 4).toString('latin1')).toBe('\x7fELF');
      expect(code.includes('svcRmsNorm')).toBe(true);
    });

    it('tells where sources are wrong', () => {
      writeFileSync(join(folder, 'sources/broken.cu'), 'int broken = nothing;\n');
      expect(compile).toThrow(/do not compile(?:.*\n)*.*broken\.cu\(1\): error/);
    });
  },
);

const toolkit = '/usr/local/cuda/include';

describe('what is declared of the driver', () => {
  it(
    'has the sizes and values of the header of the CUDA toolkit',
    needs(existsSync(`${toolkit}/cuda.h`), 'the CUDA toolkit is not installed'),
    () => {
      const args = ['-std=c++20', '-fsyntax-only', `-I${native}/src`, `-I${native}`, '-isystem', toolkit];
      const compiled = spawnSync('g++', [...args, `${native}/test/cuda-declarations.cc`], {
        encoding: 'utf8',
      });
      expect(compiled).toMatchObject({ status: 0, stderr: '' });
    },
  );
});
