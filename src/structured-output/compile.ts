// A constraint becomes a grammar: plain data that crosses threads.

import type { Constraint, Tag } from './constraint.ts';
import { compileEbnf } from './ebnf/compile-ebnf.ts';
import type { Grammar } from './grammar.ts';
import { GrammarBuilder } from './grammar-builder.ts';
import { compileSchema } from './json-schema/compile-schema.ts';
import { Budget, type CompileLimits, DEFAULT_LIMITS } from './limits.ts';
import { intersect, subtract } from './regular/dfa.ts';
import { parseWholePattern } from './regular/regex.ts';
import { choice, type Regular, repeat, sequence, text, toDfa } from './regular/regular.ts';
import { ANY_SYMBOL, Marks, type SpecialTokens } from './special-tokens.ts';

/**
 * @param specialTokens of the vocabulary that the grammar is for
 * @throws ConstraintError where the constraint cannot be enforced exactly or costs more than the limits allow.
 */
export function compile(
  constraint: Constraint,
  specialTokens: SpecialTokens = new Map(),
  limits: CompileLimits = DEFAULT_LIMITS,
): Grammar {
  const builder = new GrammarBuilder(new Budget(limits), new Marks(specialTokens));
  return builder.finish(compilePart(constraint, builder, 0));
}

function compilePart(constraint: Constraint, builder: GrammarBuilder, depth: number): number {
  const { budget } = builder;
  if (depth > budget.limits.maxDepth) budget.refuse('is nested too deeply');
  const regular = toRegular(constraint, builder, depth);
  if (regular !== null) return builder.regular(regular);
  const part = (inner: Constraint): number => compilePart(inner, builder, depth + 1);
  switch (constraint.kind) {
    case 'jsonSchema':
      return compileSchema(constraint.schema, constraint.style ?? {}, builder);
    case 'grammar':
      return compileEbnf(constraint.ebnf, builder);
    case 'sequence':
      return builder.add({ kind: 'sequence', parts: constraint.parts.map(part) });
    case 'choice':
      return builder.add({ kind: 'choice', options: constraint.options.map(part) });
    case 'repeat':
      return compileRepeat(constraint, part(constraint.item), builder);
    case 'triggeredTags':
      return compileTags(constraint, part, builder);
    default:
      return budget.refuse('has a part of an unknown kind');
  }
}

/** What has no nesting is one automaton; null for what may nest. */
function toRegular(constraint: Constraint, builder: GrammarBuilder, depth: number): Regular | null {
  const { budget } = builder;
  if (depth > budget.limits.maxDepth) budget.refuse('is nested too deeply');
  const inner = (parts: readonly Constraint[]): Regular[] | null => {
    const regular = parts.map((part) => toRegular(part, builder, depth + 1));
    return regular.every((part) => part !== null) ? regular : null;
  };
  switch (constraint.kind) {
    case 'literal':
      return text(constraint.text);
    case 'mark':
      return builder.marks.regular(constraint.text);
    case 'regex':
      // An automaton of its own: its edges are not those of the text around it.
      return { kind: 'dfa', dfa: toDfa(parseWholePattern(constraint.pattern, budget), budget) };
    case 'sequence': {
      const parts = inner(constraint.parts);
      return parts === null ? null : sequence(...parts);
    }
    case 'choice': {
      const options = inner(constraint.options);
      return options === null ? null : choice(...options);
    }
    case 'repeat': {
      const [item] = inner([constraint.item]) ?? [];
      if (item === undefined) return null;
      return separated(item, builder.marks.regular(constraint.separator), constraint.min, constraint.max);
    }
    default:
      return null;
  }
}

function separated(item: Regular, separator: Regular, min: number, max: number | null): Regular {
  const some = (least: number): Regular =>
    sequence(item, repeat(sequence(separator, item), least - 1, max === null ? null : max - 1));
  if (max === 0) return sequence();
  return min === 0 ? choice(sequence(), some(1)) : some(min);
}

function compileRepeat(
  { separator, min, max }: Extract<Constraint, { kind: 'repeat' }>,
  item: number,
  builder: GrammarBuilder,
): number {
  const nothing = builder.add({ kind: 'sequence', parts: [] });
  if (max === 0) return nothing;
  const further = builder.add({ kind: 'sequence', parts: [builder.mark(separator), item] });
  const most = max === null ? null : max - 1;
  const rest = builder.add({ kind: 'repeat', item: further, min: Math.max(0, min - 1), max: most });
  const some = builder.add({ kind: 'sequence', parts: [item, rest] });
  if (separator === '' && builder.mayBeEmpty(item))
    builder.budget.refuse(
      'repeats a part that may be empty; give it a separator, or leave the repetition out',
    );
  return min === 0 ? builder.add({ kind: 'choice', options: [nothing, some] }) : some;
}

/** Free text up to the end of the first trigger, the rest of a tag that begins with it, again and again. */
function compileTags(
  { triggers, tags, atLeastOne, stopAfterFirst }: Extract<Constraint, { kind: 'triggeredTags' }>,
  part: (constraint: Constraint) => number,
  builder: GrammarBuilder,
): number {
  const { budget } = builder;
  for (const { begin } of tags)
    if (!triggers.some((trigger) => begin.startsWith(trigger)))
      budget.refuse(`has a tag that begins with none of the triggers: ${JSON.stringify(begin)}`);
  if (triggers.includes('')) budget.refuse('has an empty trigger');
  const { marks } = builder;
  const compiled = tags.map((tag) => ({ tag, inside: part(tag.content) }));
  const begun = triggers.flatMap((trigger) =>
    compiled
      .filter(({ tag }) => tag.begin.startsWith(trigger))
      .map((one) => ({ ...one, begin: marks.beginning(one.tag.begin, trigger.length) })),
  );
  const begins = [...new Set(begun.map(({ begin }) => begin))];
  // Readers of the text see no difference between a special token and its characters.
  const asText = triggers.flatMap((trigger) => [
    text(trigger),
    marks.regular(trigger),
    marks.tokensWith(trigger),
  ]);
  const anything = repeat(ANY_SYMBOL, 0, null);
  const upToBegin = sequence(anything, choice(...asText, ...begins.map((begin) => marks.regular(begin))));
  const contains = toDfa(sequence(upToBegin, anything), budget);
  const longer = toDfa(sequence(upToBegin, ANY_SYMBOL, anything), budget);
  // The first trigger of the text is at its end.
  const first = subtract(contains, longer, budget);
  const free = builder.text(subtract(toDfa(anything, budget), contains, budget));
  const options = begins.map((begin) => {
    const upTo = intersect(first, toDfa(sequence(anything, marks.regular(begin)), budget), budget);
    const bodies = begun.flatMap((one) => (one.begin === begin ? [compileTag(one, builder)] : []));
    const body = builder.add({ kind: 'choice', options: bodies });
    return builder.add({ kind: 'sequence', parts: [builder.text(upTo), body] });
  });
  const tag = builder.add({ kind: 'choice', options });
  if (stopAfterFirst) return atLeastOne ? tag : builder.add({ kind: 'choice', options: [free, tag] });
  const all = builder.add({ kind: 'repeat', item: tag, min: atLeastOne ? 1 : 0, max: null });
  return builder.add({ kind: 'sequence', parts: [all, free] });
}

function compileTag(
  { tag, begin, inside }: { readonly tag: Tag; readonly begin: string; readonly inside: number },
  builder: GrammarBuilder,
): number {
  const rest = builder.mark(tag.begin.slice(begin.length));
  return builder.add({ kind: 'sequence', parts: [rest, inside, builder.mark(tag.end)] });
}
