// The decoder section of tokenizer.json, checked: the incremental detokenizer is built from it.

import * as z from 'zod';

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

const sequence = z.object({ type: z.literal('Sequence'), decoders: z.array(z.unknown()) });

/** Names for the message that refuses any other decoder. */
export const DECODER_NAMES =
  'ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece, BPEDecoder or a Sequence of these';

/** The steps of a decoder in the order in which they run, however deep its sequences are; null where one is none of the above. */
export function decoderSteps(decoder: unknown): SimpleDecoderSpec[] | null {
  const steps: SimpleDecoderSpec[] = [];
  const left = [decoder];
  while (left.length > 0) {
    const next = left.pop();
    const inner = sequence.safeParse(next);
    if (inner.success) {
      for (const one of inner.data.decoders.reverse()) left.push(one);
      continue;
    }
    const step = simple.safeParse(next);
    if (!step.success) return null;
    steps.push(step.data);
  }
  return steps;
}
