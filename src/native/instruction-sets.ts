// Names of the native kernel sets, the best first; SVC_CPU_ISA takes one of them.

export const INSTRUCTION_SETS = ['amx-bf16', 'avx512-bf16', 'avx2', 'portable'] as const;

export type InstructionSet = (typeof INSTRUCTION_SETS)[number];
