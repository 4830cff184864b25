// The name of all that determines the bytes of an answer besides its request.

import type { EngineInfo, ServedAdapter } from '../engine/inference-engine.ts';

/** Of each digest: enough that two are never the same by chance. */
const DIGITS = 12;

/** Version, instruction set, formats, model and adapter. */
export function systemFingerprint(
  version: string,
  { isa, dtype, kvDType, weightFormat, modelFingerprint }: EngineInfo,
  adapter: ServedAdapter | null,
): string {
  const formats = kvDType === dtype ? weightFormat : `${weightFormat}-kv_${kvDType}`;
  return `svc-${version}-${isa}-${formats}-${contentsOf({ modelFingerprint }, adapter)}`;
}

/** Of model and adapter, whatever their names. */
export function contentsOf(
  { modelFingerprint }: Pick<EngineInfo, 'modelFingerprint'>,
  adapter: ServedAdapter | null,
): string {
  const model = modelFingerprint.slice(0, DIGITS);
  return adapter === null ? model : `${model}-lora_${adapter.digest.slice(0, DIGITS)}`;
}
