// The decoder section of tokenizer.json, checked: what the incremental detokenizer is built from.

import { z } from 'zod';

const replace = z.object({
  type: z.literal('Replace'),
  pattern: z.union([z.object({ String: z.string() }), z.object({ Regex: z.string() })]),
  content: z.string(),
});

const strip = z.object({
  type: z.literal('Strip'),
  content: z.string(),
  start: z.int().nonnegative(),
  stop: z.int().nonnegative(),
});

const metaspace = z.object({
  type: z.literal('Metaspace'),
  replacement: z.string().default('▁'),
  prepend_scheme: z.enum(['always', 'never', 'first']).optional(),
  /** The older spelling of prepend_scheme. */
  add_prefix_space: z.boolean().optional(),
});

const wordPiece = z.object({
  type: z.literal('WordPiece'),
  prefix: z.string().default('##'),
  cleanup: z.boolean().default(true),
});

const simple = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ByteLevel') }),
  z.object({ type: z.literal('ByteFallback') }),
  z.object({ type: z.literal('Fuse') }),
  replace,
  strip,
  metaspace,
  wordPiece,
  z.object({ type: z.literal('BPEDecoder'), suffix: z.string().default('</w>') }),
]);

export type SimpleDecoderSpec = z.output<typeof simple>;

type DecoderSpec = SimpleDecoderSpec | { readonly type: 'Sequence'; readonly decoders: DecoderSpec[] };

/** Every decoder that svc can run; null is a tokenizer without one. */
export const decoderSpec: z.ZodType<DecoderSpec> = z.lazy(() =>
  z.union([simple, z.object({ type: z.literal('Sequence'), decoders: z.array(decoderSpec) })]),
);

/** Names for the message that refuses any other decoder. */
export const DECODER_NAMES =
  'ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece, BPEDecoder or a Sequence of these';

/** The steps of `spec` in the order in which they run. */
export function flattenDecoder(spec: DecoderSpec): SimpleDecoderSpec[] {
  return spec.type === 'Sequence' ? spec.decoders.flatMap(flattenDecoder) : [spec];
}
