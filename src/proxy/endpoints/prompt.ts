// A prompt as policies see it: how long it is, about, and hashes of the blocks by which they recognise its beginning. The
// proxy has no tokenizer: text is measured in bytes.

import { createHash } from 'node:crypto';

/** Of text, about. */
const BYTES_PER_TOKEN = 4;
/** Of an image, about: models take from a hundred to some thousands for one. */
const IMAGE_BYTES = 512 * BYTES_PER_TOKEN;
const IMAGE_TYPES: readonly unknown[] = ['image_url', 'input_image', 'image'];
/** Tokens of one block. */
export const BLOCK_TOKENS = 32;
/** Beginnings are compared up to here. */
const MAX_BLOCKS = 1024;

export interface PromptShape {
  readonly count: number;
  /** Of the longest prompt, estimated where it is text. */
  readonly numTokens: number;
  /** Of the full blocks of the first prompt, in order. */
  readonly blockHashes: readonly string[];
}

/** Of a request that computes none. */
export const NO_PROMPT: PromptShape = { count: 1, numTokens: 0, blockHashes: [] };

export class Prompt implements PromptShape {
  readonly count: number;
  readonly numTokens: number;
  readonly #content: () => unknown;
  #blockHashes: readonly string[] | null = null;

  /** @param content of the first prompt, a text or packed token ids; read only where a policy compares prompts. */
  constructor(count: number, numTokens: number, content: () => unknown) {
    this.count = count;
    this.numTokens = numTokens;
    this.#content = content;
  }

  get blockHashes(): readonly string[] {
    this.#blockHashes ??= hashBlocks(this.#content());
    return this.#blockHashes;
  }
}

/** Bytes of all texts in a value; the names of fields are not counted. An image counts as its tokens, not as its file. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  if (isImage(value)) return IMAGE_BYTES;
  let length = 0;
  for (const element of Object.values(value)) length += textBytes(element);
  return length;
}

/** A conversation in fields that only instances can render, in the order in which templates write them. */
export function conversationPrompt(...fields: readonly unknown[]): Prompt {
  const numTokens = Math.ceil(textBytes(fields) / BYTES_PER_TOKEN);
  const text = (): string =>
    fields.map((field) => (field == null ? '' : JSON.stringify(field, withoutFile))).join('');
  return new Prompt(1, numTokens, text);
}

/** A part or block of a message that is an image, in each of the protocols. */
function isImage(value: object): boolean {
  return 'type' in value && IMAGE_TYPES.includes(value.type);
}

/** An image as a text that is as long as it is in a prompt, and the same for the same image. */
function withoutFile(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !isImage(value)) return value;
  const digest = hash(JSON.stringify(Object.entries(value)));
  return digest.repeat(Math.ceil(IMAGE_BYTES / digest.length)).slice(0, IMAGE_BYTES);
}

/** Of a text, estimated, or of packed token ids; 0 for what is neither. */
export function numTokensOf(prompt: unknown): number {
  if (prompt instanceof Int32Array) return prompt.length;
  return typeof prompt === 'string' ? Math.ceil(Buffer.byteLength(prompt) / BYTES_PER_TOKEN) : 0;
}

function hashBlocks(prompt: unknown): readonly string[] {
  const isText = typeof prompt === 'string';
  if (!isText && !(prompt instanceof Int32Array)) return [];
  const size = isText ? BLOCK_TOKENS * BYTES_PER_TOKEN : BLOCK_TOKENS;
  const count = Math.min(MAX_BLOCKS, Math.floor(prompt.length / size));
  return Array.from({ length: count }, (_, index) => hash(prompt.slice(index * size, (index + 1) * size)));
}

/** A hash, because a part of a text would keep the whole text in memory. */
function hash(block: string | Int32Array): string {
  return createHash('sha1').update(block).digest('base64');
}
