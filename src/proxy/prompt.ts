// The prompt of a request as the proxy sees it: about how long it is, and the pieces by which policies recognise its
// beginning. Never tokenised: the proxy has no tokenizer.

import { createHash } from 'node:crypto';

export type JobPath = '/v1/completions' | '/v1/chat/completions';
export type JsonObject = Readonly<Record<string, unknown>>;

/** What a token of text is taken for. */
const BYTES_A_TOKEN = 4;
/** Tokens of one piece. */
export const PIECE_TOKENS = 32;
/** Beginnings are compared up to here. */
const MAX_PIECES = 1024;

/** What policies may know of a prompt. */
export interface PromptShape {
  /** Prompts in the request. */
  readonly count: number;
  /** Of the longest prompt, estimated where it is text. */
  readonly numTokens: number;
  /** Digests of the equal pieces that the beginning is cut into; only whole ones count. */
  readonly pieces: readonly string[];
}

export class Prompt implements PromptShape {
  readonly count: number;
  readonly numTokens: number;
  readonly #body: JsonObject;
  readonly #path: JobPath;
  #pieces: readonly string[] | null = null;

  constructor(path: JobPath, body: JsonObject) {
    this.#path = path;
    this.#body = body;
    const prompts = path === '/v1/completions' ? promptsOf(body.prompt) : [];
    this.count = Math.max(1, prompts.length);
    this.numTokens =
      path === '/v1/completions'
        ? Math.max(0, ...prompts.map(lengthOf))
        : Math.ceil(textLength(body.messages) / BYTES_A_TOKEN);
  }

  get pieces(): readonly string[] {
    this.#pieces ??=
      this.#path === '/v1/completions' ? piecesOf(promptsOf(this.#body.prompt)[0]) : this.#chat();
    return this.#pieces;
  }

  /** What the templates put first comes first. */
  #chat(): readonly string[] {
    const { tools, messages } = this.#body;
    return piecesOf((tools == null ? '' : JSON.stringify(tools)) + (JSON.stringify(messages) ?? ''));
  }
}

/** A prompt is a text or a packed list of token ids; a request has one or a list of them. */
function promptsOf(prompt: unknown): readonly unknown[] {
  if (!Array.isArray(prompt)) return prompt == null ? [] : [prompt];
  return prompt;
}

function lengthOf(prompt: unknown): number {
  if (prompt instanceof Int32Array) return prompt.length;
  return typeof prompt === 'string' ? Math.ceil(Buffer.byteLength(prompt) / BYTES_A_TOKEN) : 0;
}

/** Bytes of all texts in the messages; keys are not counted. */
function textLength(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  let length = 0;
  for (const element of Object.values(value)) length += textLength(element);
  return length;
}

function piecesOf(prompt: unknown): readonly string[] {
  const isText = typeof prompt === 'string';
  if (!isText && !(prompt instanceof Int32Array)) return [];
  const size = isText ? PIECE_TOKENS * BYTES_A_TOKEN : PIECE_TOKENS;
  const count = Math.min(MAX_PIECES, Math.floor(prompt.length / size));
  return Array.from({ length: count }, (_, index) => digest(prompt.slice(index * size, (index + 1) * size)));
}

/** Short whatever the piece is; a piece of a text would keep the whole text in memory. */
function digest(piece: string | Int32Array): string {
  return createHash('sha1').update(piece).digest('base64');
}
