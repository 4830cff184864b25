// The instruction sets that native kernels are compiled for, the best first.

export const CPU_ISAS = ['amx-bf16', 'avx512-bf16', 'avx2', 'portable'] as const;

export type CpuIsa = (typeof CPU_ISAS)[number];
