// Compiles the constraints of requests in a thread of its own, each once: the main thread only waits, and the engine thread gets
// them when they are ready.

import { createHash } from 'node:crypto';
import type { StructuredOutputsConfig } from '../../config/structured-outputs-config.ts';
import { EngineDeadError, InvalidRequestError, OverloadedError, SvcError } from '../../errors.ts';
import type { RequestConstraint } from '../../sampling/structured-outputs.ts';
import type { CompiledConstraint } from '../../scheduler/automata.ts';
import type { Constraint } from '../../structured-output/constraint.ts';
import type { TokenTexts } from '../../structured-output/token-texts.ts';
import { withSpecialTokens } from '../../structured-output/token-texts.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { abortable } from '../../util/abortable.ts';
import { CallThread, type CallThreadErrors } from '../../util/call-thread.ts';
import type { Client } from '../../util/client.ts';
import { LruCache } from '../../util/lru-cache.ts';
import type { CompileOrder } from './compile-thread.ts';

/** The compiler bounds its own work far below these: they are for a machine that is busy, and for defects. */
export const COMPILE_LIMITS = {
  timeoutMs: 10_000,
  /** How long a constraint may wait for others. */
  waitMs: 30_000,
  memoryMb: 512,
  maxWaiting: 1024,
};

export type CompileLimits = Readonly<typeof COMPILE_LIMITS>;

const RETRY_AFTER_SECONDS = 1;
/** Bytes of compiled constraints that are kept for the next requests. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;

type GrammarOrder = Exclude<CompileOrder, { readonly texts: unknown }>;

/** A grammar that is being made, or waits for others to be. */
interface Compiling {
  readonly order: GrammarOrder;
  readonly grammar: Promise<SharedArrayBuffer>;
  /** Requests that want it. */
  numWanting: number;
}

interface CompiledModel {
  readonly tokenizer: Tokenizer | null;
  /** Each end token is in the vocabulary. */
  readonly limits: { readonly vocabSize: number; readonly eosTokenIds: readonly number[] };
}

export class ConstraintCompiler {
  readonly #model: CompiledModel;
  readonly #config: StructuredOutputsConfig;
  readonly #thread: CallThread<CompileOrder, SharedArrayBuffer>;
  readonly #compiled = new LruCache<string, SharedArrayBuffer>(
    MAX_KEPT_BYTES,
    ({ byteLength }) => byteLength,
  );
  readonly #compiling = new Map<string, Compiling>();
  #vocabulary: Promise<SharedArrayBuffer> | null = null;

  constructor(model: CompiledModel, config: StructuredOutputsConfig, limits: CompileLimits = COMPILE_LIMITS) {
    this.#model = model;
    this.#config = config;
    this.#thread = new CallThread(new URL('./compile-thread', import.meta.url), {
      name: 'svc-grammar',
      deadlineMs: limits.timeoutMs,
      waitMs: limits.waitMs,
      maxWaiting: limits.maxWaiting,
      memoryMb: limits.memoryMb,
      errors: errorsOf(limits),
    });
  }

  /**
   * @throws InvalidRequestError naming the field, and what of the constraint cannot be enforced.
   * @throws OverloadedError where too many constraints wait already, the reason of an abort as soon as it comes.
   */
  async compile(
    { constraint: asked, field }: RequestConstraint,
    client: Client = {},
  ): Promise<CompiledConstraint> {
    const { tokenizer, limits } = this.#model;
    if (tokenizer === null || limits.eosTokenIds.length === 0) {
      const missing = tokenizer === null ? 'a tokenizer' : 'a model that names an end token';
      throw new InvalidRequestError(`${field} needs ${missing}, and this server runs without one`, {
        param: field,
      });
    }
    const constraint = withStyle(asked, this.#config);
    const id = createHash('sha256').update(JSON.stringify(constraint)).digest('base64');
    try {
      const vocabulary = await this.#vocabularyOf(tokenizer);
      const grammar =
        this.#compiled.get(id) ?? (await this.#grammarOf(id, { constraint, vocabulary }, client));
      return { id, grammar, vocabulary };
    } catch (error) {
      if (!(error instanceof InvalidRequestError)) throw error;
      throw new InvalidRequestError(`${field}: ${error.message}`, { param: field, cause: error });
    }
  }

  /** Makes the vocabulary ready, so that the first constraint need not wait for it; an error is told to those who do. */
  prepare(): void {
    const { tokenizer, limits } = this.#model;
    if (tokenizer === null || limits.eosTokenIds.length === 0) return;
    // Ignore: the first constraint tries again.
    this.#vocabularyOf(tokenizer).catch(() => {});
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  /** Made at the first constraint where it has not been before, and again where that has failed. */
  #vocabularyOf(tokenizer: Tokenizer): Promise<SharedArrayBuffer> {
    this.#vocabulary ??= tokenTexts(tokenizer, this.#model.limits)
      .then((texts) => this.#thread.call({ texts }))
      .catch((error: unknown) => {
        this.#vocabulary = null;
        throw error instanceof InvalidRequestError ? vocabularyError(error) : error;
      });
    return this.#vocabulary;
  }

  /** Equal constraints that come together are compiled once, and not at all where all who want it leave before it begins. */
  #grammarOf(id: string, order: GrammarOrder, { signal, caller }: Client): Promise<SharedArrayBuffer> {
    return abortable(signal, (ended) => {
      const compiling = this.#compiling.get(id) ?? this.#begin(id, order, caller);
      compiling.numWanting += 1;
      const leave = (): void => {
        compiling.numWanting -= 1;
        if (compiling.numWanting === 0 && this.#thread.withdraw(compiling.order)) this.#compiling.delete(id);
      };
      ended.addEventListener('abort', leave, { once: true });
      return compiling.grammar;
    });
  }

  #begin(id: string, order: GrammarOrder, caller: string | undefined): Compiling {
    const compile = async (): Promise<SharedArrayBuffer> => {
      try {
        const grammar = await this.#thread.call(order, { caller });
        this.#compiled.set(id, grammar);
        return grammar;
      } finally {
        // Where it was withdrawn, another may have begun since.
        if (this.#compiling.get(id) === compiling) this.#compiling.delete(id);
      }
    };
    const compiling: Compiling = { order, grammar: compile(), numWanting: 0 };
    this.#compiling.set(id, compiling);
    return compiling;
  }
}

/** The same with all its JSON in the style of the whole server, beside its own. */
function withStyle(constraint: Constraint, config: StructuredOutputsConfig): Constraint {
  const inner = (part: Constraint): Constraint => withStyle(part, config);
  switch (constraint.kind) {
    case 'jsonSchema': {
      const { compact = false, closedObjects = false, ...style } = constraint.style ?? {};
      return {
        ...constraint,
        style: {
          ...style,
          compact: compact || config.disableAnyWhitespace,
          closedObjects: closedObjects || config.disableAdditionalProperties,
        },
      };
    }
    case 'sequence':
      return { ...constraint, parts: constraint.parts.map(inner) };
    case 'choice':
      return { ...constraint, options: constraint.options.map(inner) };
    case 'repeat':
      return { ...constraint, item: inner(constraint.item) };
    case 'triggeredTags':
      return { ...constraint, tags: constraint.tags.map((tag) => ({ ...tag, content: inner(tag.content) })) };
    default:
      return constraint;
  }
}

/** As many tokens as the model has logits. */
async function tokenTexts(
  tokenizer: Tokenizer,
  { vocabSize, eosTokenIds }: CompiledModel['limits'],
): Promise<TokenTexts> {
  const { bytes, starts, specialTokens } = await tokenizer.tokenBytes();
  const known = starts.subarray(0, vocabSize + 1);
  const ownStarts = new Int32Array(vocabSize + 1).fill(known.at(-1) ?? 0, known.length);
  ownStarts.set(known);
  return withSpecialTokens({ bytes, starts: ownStarts, endTokenIds: eosTokenIds }, specialTokens);
}

function errorsOf({ timeoutMs, waitMs, memoryMb, maxWaiting }: CompileLimits): CallThreadErrors {
  return {
    full: () => overloaded(`${maxWaiting} constraints wait to be compiled`),
    waitedTooLong: () => overloaded(`the constraint has waited ${waitMs / 1000} seconds to be compiled`),
    late: () =>
      new InvalidRequestError(`it takes longer than ${timeoutMs / 1000} seconds to compile: simplify it`),
    died: (cause) => deathError(cause, memoryMb),
    closed: () => new EngineDeadError('the engine has been closed'),
  };
}

function deathError(cause: unknown, memoryMb: number): Error {
  const error = cause instanceof Error ? cause : new Error('it has ended');
  if ('code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return new InvalidRequestError(`it takes more than ${memoryMb} MiB of memory to compile: simplify it`);
  }
  return new SvcError(`the thread that compiles constraints does not run: ${error.message}`, { cause });
}

/** The bounds of one call are worded for constraints; what is made ready here is the model's. */
function vocabularyError(cause: InvalidRequestError): OverloadedError {
  return new OverloadedError(
    'The vocabulary of the model is not ready for constraints yet; try again later',
    {
      retryAfter: RETRY_AFTER_SECONDS,
      cause,
    },
  );
}

function overloaded(what: string): OverloadedError {
  return new OverloadedError(`The server is full: ${what}; try again later`, {
    retryAfter: RETRY_AFTER_SECONDS,
  });
}
