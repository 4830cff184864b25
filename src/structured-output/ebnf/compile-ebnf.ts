// A grammar in EBNF becomes nodes: what does not nest is one automaton, rules that contain themselves use the stack.

import type { GrammarBuilder } from '../grammar-builder.ts';
import type { Budget } from '../limits.ts';
import { dfaOfWords, subtract } from '../regular/dfa.ts';
import { choice, EMPTY, type Regular, repeat, sequence, toDfa } from '../regular/regular.ts';
import { type EbnfExpression, parseEbnf } from './parse-ebnf.ts';

/** The whole text is one of these, the first that exists. */
const ROOTS = ['root', 'start'];
/** States and steps up to which a part without nesting is one automaton, which makes masks fast. */
const ONE_AUTOMATON = { maxDfaStates: 2000, maxWork: 2_000_000 };

/** Rules in each other. */
const MAX_RULE_DEPTH = 500;

/** @returns the node of the whole text. */
export function compileEbnf(source: string, builder: GrammarBuilder): number {
  const rules = parseEbnf(source, builder.budget);
  const root = ROOTS.find((name) => rules.has(name));
  if (root === undefined) return builder.budget.refuse('has a grammar without a rule root');
  return new EbnfCompiler(rules, builder).rule(root, false);
}

class EbnfCompiler {
  readonly #rules: ReadonlyMap<string, EbnfExpression>;
  readonly #builder: GrammarBuilder;
  readonly #nodes = new Map<string, number>();
  readonly #emptyRules = new Set<string>();
  /** Rules that contain no rule that contains itself. */
  readonly #flat = new Map<string, boolean>();
  #depth = 0;

  constructor(rules: ReadonlyMap<string, EbnfExpression>, builder: GrammarBuilder) {
    this.#rules = rules;
    this.#builder = builder;
    for (const expression of rules.values()) this.#checkNames(expression);
    this.#findEmptyRules();
    this.#refuseLeftRecursion();
  }

  /** @param isFilled without the empty text. */
  rule(name: string, isFilled: boolean): number {
    const key = isFilled ? `${name}!` : name;
    const known = this.#nodes.get(key);
    if (known !== undefined) return known;
    const node = this.#builder.reserve();
    this.#nodes.set(key, node);
    const inner = this.#inRule(name, (expression) => this.#compile(expression, isFilled));
    this.#builder.fill(node, { kind: 'choice', options: [inner] });
    return node;
  }

  #compile(expression: EbnfExpression, isFilled: boolean): number {
    const flat = this.#oneAutomaton(expression, isFilled);
    if (flat !== null) return flat;
    const builder = this.#builder;
    switch (expression.kind) {
      case 'regular':
        return builder.text(this.#dfa(expression.regular, isFilled));
      case 'rule':
        return this.rule(expression.name, isFilled);
      case 'choice': {
        const options = expression.options.map((option) => this.#compile(option, isFilled));
        return builder.add({ kind: 'choice', options });
      }
      case 'sequence':
        return isFilled && this.#isEmpty(expression)
          ? this.#filledSequence(expression.parts)
          : builder.add({
              kind: 'sequence',
              parts: expression.parts.map((part) => this.#compile(part, false)),
            });
      case 'repeat': {
        // An item that may be empty is left out instead of repeated.
        const mayBeEmpty = this.#isEmpty(expression.item);
        const least = mayBeEmpty ? 0 : expression.min;
        const item = this.#compile(expression.item, true);
        const min = isFilled ? Math.max(1, least) : least;
        return builder.add({ kind: 'repeat', item, min, max: expression.max });
      }
    }
  }

  /** All parts may be empty, not all at once: one of them is the first that is not. */
  #filledSequence(parts: readonly EbnfExpression[]): number {
    const options = parts.map((part, i) => {
      const rest = parts.slice(i + 1).map((later) => this.#compile(later, false));
      return this.#builder.add({ kind: 'sequence', parts: [this.#compile(part, true), ...rest] });
    });
    return this.#builder.add({ kind: 'choice', options });
  }

  /** Null where the expression nests, or is too large to be one automaton. */
  #oneAutomaton(expression: EbnfExpression, isFilled: boolean): number | null {
    if (!this.#isFlat(expression)) return null;
    const dfa = this.#builder.budget.attempt(ONE_AUTOMATON, (budget) => {
      const whole = toDfa(this.#regular(expression, budget), budget);
      return isFilled ? subtract(whole, dfaOfWords([new Uint8Array(0)], budget), budget) : whole;
    });
    return dfa === null ? null : this.#builder.text(dfa);
  }

  #dfa(regular: Regular, isFilled: boolean): ReturnType<typeof toDfa> {
    const { budget } = this.#builder;
    const whole = toDfa(regular, budget);
    return isFilled ? subtract(whole, dfaOfWords([new Uint8Array(0)], budget), budget) : whole;
  }

  /** Rules may use others many times, and those others again. */
  #regular(expression: EbnfExpression, budget: Budget): Regular {
    budget.spend(1);
    switch (expression.kind) {
      case 'regular':
        return expression.regular;
      case 'rule':
        return this.#inRule(expression.name, (inner) => this.#regular(inner, budget));
      case 'choice':
        return choice(...expression.options.map((option) => this.#regular(option, budget)));
      case 'sequence':
        return expression.parts.length === 0
          ? EMPTY
          : sequence(...expression.parts.map((part) => this.#regular(part, budget)));
      case 'repeat':
        return repeat(this.#regular(expression.item, budget), expression.min, expression.max);
    }
  }

  /** @throws ConstraintError where rules are within each other deeper than they may be. */
  #inRule<Result>(name: string, body: (expression: EbnfExpression) => Result): Result {
    const { budget } = this.#builder;
    if (this.#depth >= MAX_RULE_DEPTH)
      budget.refuse(
        `has a grammar with more than ${MAX_RULE_DEPTH} rules in each other; the last one is ${name}`,
      );
    this.#depth += 1;
    try {
      return body(this.#rules.get(name)!);
    } finally {
      this.#depth -= 1;
    }
  }

  #isFlat(expression: EbnfExpression): boolean {
    if (expression.kind !== 'rule') return partsOf(expression).every((part) => this.#isFlat(part));
    const known = this.#flat.get(expression.name);
    if (known !== undefined) return known;
    // Until it is known otherwise: a rule that is met again inside itself nests.
    this.#flat.set(expression.name, false);
    const isFlat = this.#inRule(expression.name, (inner) => this.#isFlat(inner));
    this.#flat.set(expression.name, isFlat);
    return isFlat;
  }

  #isEmpty(expression: EbnfExpression): boolean {
    this.#builder.budget.spend(1);
    switch (expression.kind) {
      case 'regular':
        return (toDfa(expression.regular, this.#builder.budget)?.labels[0] ?? -1) >= 0;
      case 'rule':
        return this.#emptyRules.has(expression.name);
      case 'choice':
        return expression.options.some((option) => this.#isEmpty(option));
      case 'sequence':
        return expression.parts.every((part) => this.#isEmpty(part));
      case 'repeat':
        return expression.min === 0 || this.#isEmpty(expression.item);
    }
  }

  #findEmptyRules(): void {
    for (let before = -1; before !== this.#emptyRules.size; ) {
      before = this.#emptyRules.size;
      for (const [name, expression] of this.#rules) if (this.#isEmpty(expression)) this.#emptyRules.add(name);
    }
  }

  #checkNames(expression: EbnfExpression): void {
    if (expression.kind === 'rule' && !this.#rules.has(expression.name))
      this.#builder.budget.refuse(`has a grammar that uses the rule ${expression.name} without defining it`);
    for (const part of partsOf(expression)) this.#checkNames(part);
  }

  #refuseLeftRecursion(): void {
    const done = new Set<string>();
    const visit = (name: string, path: readonly string[]): void => {
      if (path.includes(name))
        this.#builder.budget.refuse(
          `has a grammar whose rule ${name} begins with itself (${[...path, name].join(' -> ')}); write it as a repetition`,
        );
      if (done.has(name)) return;
      this.#inRule(name, (expression) => {
        for (const next of new Set(this.#firstRules(expression))) visit(next, [...path, name]);
      });
      done.add(name);
    };
    for (const name of this.#rules.keys()) visit(name, []);
  }

  /** The rules with which an expression may begin. */
  #firstRules(expression: EbnfExpression): string[] {
    if (expression.kind === 'rule') return [expression.name];
    if (expression.kind !== 'sequence') return partsOf(expression).flatMap((part) => this.#firstRules(part));
    const first = expression.parts.findIndex((part) => !this.#isEmpty(part));
    return expression.parts
      .slice(0, first < 0 ? undefined : first + 1)
      .flatMap((part) => this.#firstRules(part));
  }
}

function partsOf(expression: EbnfExpression): readonly EbnfExpression[] {
  if (expression.kind === 'sequence') return expression.parts;
  if (expression.kind === 'choice') return expression.options;
  return expression.kind === 'repeat' ? [expression.item] : [];
}
