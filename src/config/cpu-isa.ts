// The instruction sets that native kernels are compiled for, the best first.

export const CPU_ISAS = ['amx-bf16', 'avx512-bf16', 'avx2', 'portable'] as const;

export type CpuIsa = (typeof CPU_ISAS)[number];

/**
 * Whether its products take codes of whole numbers as they are, where the definition of codes rounds what they encode to bf16. It keeps codes
 * with as many bits as they were published with.
 */
export function multipliesWholeCodes(isa: CpuIsa): boolean {
  return isa === 'avx2' || isa === 'avx512-bf16';
}
