// How a model writes its thoughts and its calls: as the options say, else as its chat template shows.

import type { ReasoningParserName, ToolCallParserName } from '../config/engine-config.ts';
import { AnswerParser } from './answer-parser.ts';
import type { FunctionTool } from './answer-parts.ts';
import type { CallLimits } from './answer-writer.ts';
import type { ReasoningFormat, ThoughtTags } from './reasoning-format.ts';
import { REASONING_FORMATS, reasoningParserOf } from './reasoning-formats.ts';
import type { ToolFormat } from './tool-format.ts';
import { toolCallParserOf, toolFormat } from './tool-formats.ts';

export interface AnswerFormats {
  /** Null where the model is not known to call functions. */
  readonly tools: ToolFormat | null;
  /** Null where the model does not think, or `tools` reads its thoughts as well. */
  readonly reasoning: ReasoningFormat | null;
}

interface ParserOptions {
  /** Null: what the template shows. */
  readonly toolCallParser: ToolCallParserName | null;
  readonly reasoningParser: ReasoningParserName | null;
}

/** @param template source of the chat template; null where there is none. */
export function answerFormats(options: ParserOptions, template: string | null): AnswerFormats {
  const source = template ?? '';
  const toolParser = options.toolCallParser ?? toolCallParserOf(source) ?? 'none';
  const reasoningParser = options.reasoningParser ?? reasoningParserOf(source) ?? 'none';
  const isHarmony = toolParser === 'openai' || reasoningParser === 'openai_gptoss';
  if (isHarmony) return { tools: toolFormat('openai', source), reasoning: null };
  return {
    tools: toolParser === 'none' ? null : toolFormat(toolParser, source),
    reasoning: reasoningParser === 'none' ? null : REASONING_FORMATS[reasoningParser],
  };
}

/** The tags that a thought stands between; null where the model does not think. */
export function thoughtTags({ tools, reasoning }: AnswerFormats): ThoughtTags | null {
  return reasoning?.tags ?? tools?.thoughts ?? null;
}

/** Reads the answers to one request. */
export interface AnswerReader {
  /** Texts of special tokens that it must see. */
  readonly visibleTokens: ReadonlySet<string>;
  /** What the model writes behind its calls; null where it writes nothing, or calls none. */
  readonly callEnd: string | null;
  /** A parser for one answer. */
  open(): AnswerParser;
}

interface ReaderOptions extends CallLimits {
  /** Rendered: its end may have begun a thought. */
  readonly prompt: string;
  /** Empty where none may be called. */
  readonly tools: readonly FunctionTool[];
}

/** Null where an answer is plain text. */
export function answerReader(
  { tools: format, reasoning }: AnswerFormats,
  { prompt, tools, ...limits }: ReaderOptions,
): AnswerReader | null {
  const calls = tools.length > 0 || format?.thoughts !== undefined ? format : null;
  if (calls === null && reasoning === null) return null;
  const isOpen = reasoning?.isOpen(prompt) ?? false;
  return {
    callEnd: calls?.writing.end.trim() || null,
    visibleTokens: new Set([...(calls?.tokens ?? []), ...(reasoning?.tokens ?? [])]),
    open: () =>
      new AnswerParser(limits, function* (reader, writer) {
        if (reasoning !== null) yield* reasoning.read(reader, writer, isOpen);
        if (calls !== null) yield* calls.read(reader, writer, tools);
        yield* reader.copyUntil([], (text) => writer.content(text));
      }),
  };
}
