// What an answer must be that calls functions: of any format, for tool_choice and for tools whose schema is to be kept.

import type { Constraint } from '../structured-output/constraint.ts';
import type { FunctionTool } from './answer-parts.ts';
import { textWithout } from './argument-values.ts';
import type { ThoughtTags } from './reasoning-format.ts';
import { literal, optional, sequence, type ToolFormat } from './tool-format.ts';

interface CallRules {
  readonly tools: readonly FunctionTool[];
  readonly isParallel: boolean;
  /** Null where the model does not think. */
  readonly thoughts: ThoughtTags | null;
  /** The prompt has begun a thought. */
  readonly isThinking: boolean;
}

/**
 * An answer of one or more calls to `tools`, after a thought where the model has one.
 * @throws InvalidRequestError naming what of a tool's schema cannot be enforced in this format.
 */
export function requiredCalls({ writing }: ToolFormat, rules: CallRules): Constraint {
  const calls = sequence(writing.begin, callsOf(writing, rules), writing.end);
  return afterThought(calls, rules);
}

/**
 * Any answer, in which calls keep to the schemas of `tools`; null in a format whose calls do not begin with a mark of their own.
 * @throws InvalidRequestError as above.
 */
export function optionalCalls({ writing }: ToolFormat, rules: CallRules): Constraint | null {
  if (writing.trigger === null) return null;
  return {
    kind: 'triggeredTags',
    triggers: [writing.trigger],
    tags: [{ begin: writing.begin, content: callsOf(writing, rules), end: writing.end }],
    atLeastOne: false,
    stopAfterFirst: !rules.isParallel,
  };
}

/** Between a thought and the calls after it. */
const SPACE: Constraint = { kind: 'regex', pattern: '\\s{0,4}' };

function callsOf(writing: ToolFormat['writing'], { tools, isParallel }: CallRules): Constraint {
  const call: Constraint = { kind: 'choice', options: tools.map((tool) => writing.call(withSchema(tool))) };
  const { separator } = writing;
  if (separator === null || !isParallel) return call;
  return { kind: 'repeat', item: call, separator, min: 1, max: null };
}

/** A function without a schema takes no arguments. */
function withSchema(tool: FunctionTool): FunctionTool {
  return tool.parameters == null || Object.keys(tool.parameters).length === 0
    ? { ...tool, parameters: null }
    : tool;
}

function afterThought(calls: Constraint, { thoughts, isThinking }: CallRules): Constraint {
  if (thoughts === null) return calls;
  const text: Constraint = { kind: 'regex', pattern: textWithout(thoughts.end) };
  const thought = sequence(text, thoughts.end, thoughts.after ?? SPACE);
  return isThinking
    ? sequence(thought, calls)
    : sequence(optional(sequence(literal(thoughts.begin), thought)), calls);
}
