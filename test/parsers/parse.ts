// Reads answers with a parser: as a whole, or in the pieces that a cut makes.

import { REASONING_PARSERS, TOOL_CALL_PARSERS } from '../../src/config/engine-config.ts';
import { type AnswerFormats, answerFormats, answerReader } from '../../src/parsers/answer-formats.ts';
import type { AnswerPart, FunctionTool } from '../../src/parsers/answer-parts.ts';

export function formatsOf(toolCallParser: string, reasoningParser = 'none'): AnswerFormats {
  return answerFormats(
    {
      toolCallParser: TOOL_CALL_PARSERS.find((name) => name === toolCallParser)!,
      reasoningParser: REASONING_PARSERS.find((name) => name === reasoningParser)!,
    },
    null,
  );
}

export interface ParseOptions {
  readonly prompt?: string;
  readonly tools?: readonly FunctionTool[];
  readonly maxCalls?: number;
  readonly isEnforced?: boolean;
  /** The model did not end the answer itself. */
  readonly isCut?: boolean;
  readonly customNames?: ReadonlySet<string>;
}

const DEFAULTS = {
  prompt: '',
  tools: [],
  maxCalls: Number.POSITIVE_INFINITY,
  isEnforced: false,
  customNames: new Set<string>(),
};

export function parse(
  formats: AnswerFormats,
  pieces: readonly string[],
  { isCut = false, ...options }: ParseOptions = {},
): AnswerPart[] {
  const parser = answerReader(formats, { ...DEFAULTS, ...options })!.open();
  return [...pieces.flatMap((piece) => parser.push(piece)), ...parser.finish(isCut)];
}
