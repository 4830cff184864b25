// The options of the methods of `LLM`, after prompts and sampling parameters.

import * as z from 'zod';
import { InvalidRequestError } from '../errors.ts';
import type { FunctionTool } from '../parsers/answer-parts.ts';
import { toolFields } from '../parsers/tool-fields.ts';
import { SAMPLING_FIELD_NAMES } from '../sampling/sampling-fields.ts';
import { zodMessage } from '../util/zod-message.ts';
import { type AdapterInput, type AdaptersInput, adapterSchema, adaptersSchema } from './adapter-option.ts';
import { checkNames } from './check-names.ts';

export interface CallOptions {
  /** Aborting it rejects the call with its reason, and frees the call's KV blocks at once. */
  readonly signal?: AbortSignal | undefined;
}

export interface StreamOptions extends CallOptions {
  /** Computes the request in the place of the model alone: an adapter's name, or `{ name, path }`. */
  readonly adapter?: AdapterInput | null | undefined;
}

export interface BeamSearchOptions extends CallOptions {
  /** The same, for all prompts or one a prompt. */
  readonly adapter?: AdaptersInput | undefined;
}

interface ProgressOptions {
  /** Show a progress bar on stderr where it is a terminal; the default. */
  readonly useProgressBar?: boolean | undefined;
}

export interface GenerateOptions extends BeamSearchOptions, ProgressOptions {}

export interface ScoreOptions extends CallOptions, ProgressOptions {
  /** Most tokens that are kept of a prompt, from its beginning; -1 is what the model can read. Left out, longer ones are refused. */
  readonly truncatePromptTokens?: number | undefined;
}

export interface EmbedOptions extends ScoreOptions {
  /** Length of the embeddings, for models that were trained to have them cut; left out, all of it. */
  readonly dimensions?: number | undefined;
  /** Of the model's own prompts, the one to put before each text; empty is none. Left out, the one that the model has for all texts. */
  readonly promptName?: string | undefined;
}

export interface TemplateOptions {
  /** Open the assistant's turn at the end of the prompt; the default. */
  readonly addGenerationPrompt?: boolean | undefined;
  /** Further variables for the template. */
  readonly chatTemplateKwargs?: Readonly<Record<string, unknown>> | undefined;
}

/** A function that the model may call. */
export interface ToolInput {
  readonly type: 'function';
  readonly function: FunctionTool;
}

interface NamedFunction {
  readonly type: 'function';
  readonly function: { readonly name: string };
}

export interface ToolOptions {
  readonly tools?: readonly ToolInput[] | null | undefined;
  /** `auto`, the default, lets the model choose; `required` or a function by its name enforces a call; `allowed_tools` is either for some of the tools. */
  readonly toolChoice?:
    | 'none'
    | 'auto'
    | 'required'
    | NamedFunction
    | {
        readonly type: 'allowed_tools';
        readonly allowed_tools: {
          readonly mode: 'auto' | 'required';
          readonly tools: readonly NamedFunction[];
        };
      }
    | null
    | undefined;
  /** False: one call at most. */
  readonly parallelToolCalls?: boolean | null | undefined;
}

export interface ChatOptions extends GenerateOptions, TemplateOptions, ToolOptions {}
export interface StreamChatOptions extends StreamOptions, TemplateOptions, ToolOptions {}

const signal = z.instanceof(AbortSignal, { error: 'must be an AbortSignal' }).optional();
const useProgressBar = z.boolean().optional();
const template = {
  addGenerationPrompt: z.boolean().optional(),
  chatTemplateKwargs: z.record(z.string(), z.unknown()).optional(),
  tools: toolFields.tools.refine(
    (tools) => tools?.every(({ type }) => type === 'function') ?? true,
    'must be functions: custom tools are served over HTTP only',
  ),
  toolChoice: toolFields.tool_choice,
  parallelToolCalls: toolFields.parallel_tool_calls,
};

const parsedTemplate = z.object(template);
/** What is asked of the template and of functions, checked. */
export type ParsedChatOptions = z.output<typeof parsedTemplate>;

const truncatePromptTokens = z.int().min(-1).optional();
const dimensions = z.int().min(1).optional();
const promptName = z.string().optional();

export const generateOptions = z.object({ signal, useProgressBar, adapter: adaptersSchema });
export const chatOptions = z.object({ signal, useProgressBar, adapter: adaptersSchema, ...template });
export const beamSearchOptions = z.object({ signal, adapter: adaptersSchema });
export const scoreOptions = z.object({ signal, useProgressBar, truncatePromptTokens });
export const embedOptions = z.object({ ...scoreOptions.shape, dimensions, promptName });
export const streamOptions = z.object({ signal, adapter: adapterSchema });
export const streamChatOptions = z.object({ signal, adapter: adapterSchema, ...template });

/** Every option that some method takes. */
export const OPTION_NAMES: readonly string[] = [
  ...Object.keys(chatOptions.shape),
  ...Object.keys(embedOptions.shape),
];

/** @throws InvalidRequestError naming an option that `method` does not have, or that has a wrong value. */
export function readOptions<S extends z.ZodObject>(method: string, schema: S, given: unknown): z.output<S> {
  checkNames(given, {
    subject: `the options of ${method}()`,
    example: '{ signal }',
    known: Object.keys(schema.shape),
    refusal: (name) => `${method}() has no option ${name}`,
    elsewhere: {
      names: SAMPLING_FIELD_NAMES,
      hint: 'it is a sampling parameter, and they come before the options',
    },
  });
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new InvalidRequestError(`${method}(): ${zodMessage(parsed.error, given, 'the options')}`, {
    param: String(parsed.error.issues[0]!.path[0]),
  });
}
