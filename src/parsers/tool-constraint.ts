// What an answer must be that calls functions: of any format, for tool_choice and for tools whose schema is to be kept.

import type { Constraint } from '../structured-output/constraint.ts';
import type { FunctionTool } from './answer-parts.ts';
import { textWithout } from './argument-values.ts';
import type { ThoughtTags } from './reasoning-format.ts';
import { optional, sequence, type ToolFormat } from './tool-format.ts';

interface CallRules {
  readonly tools: readonly FunctionTool[];
  readonly isParallel: boolean;
}

/**
 * An answer of one or more calls to `tools`.
 * @throws InvalidRequestError naming what of a tool's schema cannot be enforced in this format.
 */
export function requiredCalls({ writing }: ToolFormat, rules: CallRules): Constraint {
  return sequence(writing.begin, callsOf(writing, rules), writing.end);
}

/**
 * Any answer, in which calls keep to the schemas of `tools`.
 * @throws InvalidRequestError as above.
 */
export function optionalCalls(format: ToolFormat, rules: CallRules): Constraint {
  const { writing } = format;
  if (writing.trigger === null) {
    const other: Constraint = { kind: 'regex', pattern: writing.otherAnswers ?? '' };
    return { kind: 'choice', options: [requiredCalls(format, rules), other] };
  }
  const names = rules.tools.map(({ name }) => name);
  return {
    kind: 'triggeredTags',
    triggers: [writing.trigger, ...(writing.alsoRead?.(names) ?? [])],
    tags: [{ begin: writing.begin, content: callsOf(writing, rules), end: writing.end }],
    atLeastOne: false,
    stopAfterFirst: !rules.isParallel || writing.separator === null,
  };
}

interface Thought {
  /** Null where the model does not think. */
  readonly tags: ThoughtTags | null;
  /** The prompt has begun it. */
  readonly isOpen: boolean;
}

/** `answer`, before which the model may think. */
export function afterThought(answer: Constraint, { tags, isOpen }: Thought): Constraint {
  if (tags === null) return answer;
  const text: Constraint = { kind: 'regex', pattern: textWithout(tags.end) };
  const thought = sequence(text, tags.end, tags.after ?? SPACE);
  return isOpen ? sequence(thought, answer) : sequence(optional(sequence(tags.begin, thought)), answer);
}

/** Between a thought and the calls after it. */
const SPACE: Constraint = { kind: 'regex', pattern: '\\s{0,4}' };

function callsOf(writing: ToolFormat['writing'], { tools, isParallel }: CallRules): Constraint {
  const call: Constraint = { kind: 'choice', options: tools.map((tool) => writing.call(tool)) };
  const { separator } = writing;
  if (separator === null || !isParallel) return call;
  return { kind: 'repeat', item: call, separator, min: 1, max: null };
}
