// Number formats: those that a checkpoint may hold and those that the arithmetic uses.

/** Formats of published weights. */
export type StorageDType = 'f32' | 'f16' | 'bf16';

/** Formats that a backend computes in: `bf16` products are accumulated in f32. */
export type ComputeDType = 'f32' | 'bf16';

export const BYTES_PER_ELEMENT: Readonly<Record<StorageDType, number>> = { f32: 4, f16: 2, bf16: 2 };
