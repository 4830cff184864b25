// Reads grammars in the dialects of EBNF that constrained decoding is written in: `name ::= …` as in GBNF, `name: …` as in Lark.

import type { Budget } from '../limits.ts';
import { parseWholePattern } from '../regular/regex.ts';
import { ANY_CHAR, type Regular, text, toDfa } from '../regular/regular.ts';

export type EbnfExpression =
  | { readonly kind: 'regular'; readonly regular: Regular }
  | { readonly kind: 'rule'; readonly name: string }
  | { readonly kind: 'sequence'; readonly parts: readonly EbnfExpression[] }
  | { readonly kind: 'choice'; readonly options: readonly EbnfExpression[] }
  | {
      readonly kind: 'repeat';
      readonly item: EbnfExpression;
      readonly min: number;
      readonly max: number | null;
    };

/** The rules by name, in their order. */
export function parseEbnf(source: string, budget: Budget): ReadonlyMap<string, EbnfExpression> {
  if (source.length > budget.limits.maxSourceLength) budget.refuse('has a grammar that is too long');
  return new EbnfParser(readTokens(source, budget), budget).parse();
}

interface Token {
  readonly kind: 'name' | 'define' | 'text' | 'class' | 'regex' | 'repeat' | 'sign';
  readonly value: string;
  readonly line: number;
}

const TOKENS: readonly (readonly [Token['kind'] | 'space', RegExp])[] = [
  ['space', /(?:\s|#[^\n]*|\/\/[^\n]*)+/y],
  ['define', /::=|:|=/y],
  ['name', /[?!]?[A-Za-z_][\w.-]*/y],
  ['text', /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y],
  ['class', /\[(?:[^\]\\\n]|\\.)*\]/y],
  ['regex', /\/(?:[^/\\\n]|\\.)+\//y],
  ['repeat', /\{\s*\d*\s*(?:,\s*\d*\s*)?\}/y],
  ['sign', /[|()*+?.;]/y],
];

function readTokens(source: string, budget: Budget): Token[] {
  const tokens: Token[] = [];
  let line = 1;
  for (let at = 0; at < source.length; ) {
    const found = TOKENS.map(([kind, pattern]) => {
      pattern.lastIndex = at;
      return { kind, value: pattern.exec(source)?.[0] };
    }).find(({ value }) => value !== undefined);
    if (found?.value === undefined)
      return budget.refuse(`has a grammar that cannot be read in line ${line}: ${source.slice(at, at + 20)}`);
    budget.spend(10);
    if (found.kind !== 'space') tokens.push({ kind: found.kind, value: found.value, line });
    line += found.value.split('\n').length - 1;
    at += found.value.length;
  }
  return tokens;
}

class EbnfParser {
  readonly #tokens: readonly Token[];
  readonly #budget: Budget;
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly Token[], budget: Budget) {
    this.#tokens = tokens;
    this.#budget = budget;
  }

  parse(): ReadonlyMap<string, EbnfExpression> {
    const rules = new Map<string, EbnfExpression>();
    while (this.#at < this.#tokens.length) {
      if (!this.#isRuleStart()) this.#refuse('expected a rule, such as root ::= "yes" | "no"');
      const name = ruleName(this.#tokens[this.#at]!.value);
      if (rules.has(name)) this.#refuse(`defines the rule ${name} twice`);
      this.#at += 2;
      rules.set(name, this.#choice());
      while (this.#takeSign(';'));
    }
    return rules;
  }

  #refuse(what: string): never {
    const line = this.#tokens[Math.min(this.#at, this.#tokens.length - 1)]?.line ?? 1;
    return this.#budget.refuse(`has a grammar that is wrong in line ${line}: ${what}`);
  }

  /** A rule ends where the next one begins, wherever its lines break. */
  #isRuleStart(): boolean {
    return this.#tokens[this.#at]?.kind === 'name' && this.#tokens[this.#at + 1]?.kind === 'define';
  }

  #takeSign(sign: string): boolean {
    const token = this.#tokens[this.#at];
    if (token?.kind !== 'sign' || token.value !== sign) return false;
    this.#at += 1;
    return true;
  }

  #choice(): EbnfExpression {
    this.#depth += 1;
    if (this.#depth > this.#budget.limits.maxDepth) this.#refuse('is nested too deeply');
    const options = [this.#sequence()];
    while (this.#takeSign('|')) options.push(this.#sequence());
    this.#depth -= 1;
    return options.length === 1 ? options[0]! : { kind: 'choice', options };
  }

  #sequence(): EbnfExpression {
    const parts: EbnfExpression[] = [];
    for (let item = this.#item(); item !== null; item = this.#item()) parts.push(this.#repeated(item));
    return parts.length === 1 ? parts[0]! : { kind: 'sequence', parts };
  }

  /** Null where the sequence ends. */
  #item(): EbnfExpression | null {
    const token = this.#tokens[this.#at];
    if (token === undefined || this.#isRuleStart()) return null;
    if (this.#takeSign('(')) {
      const inner = this.#choice();
      if (!this.#takeSign(')')) this.#refuse('a ( has no )');
      return inner;
    }
    if (this.#takeSign('.')) return { kind: 'regular', regular: ANY_CHAR };
    if (token.kind === 'sign') return null;
    this.#at += 1;
    switch (token.kind) {
      case 'name':
        return { kind: 'rule', name: ruleName(token.value) };
      case 'text':
        return { kind: 'regular', regular: text(this.#unquoted(token.value)) };
      case 'class':
        return this.#pattern(token.value);
      case 'regex':
        return this.#pattern(token.value.slice(1, -1));
      default:
        return this.#refuse(`did not expect ${token.value}`);
    }
  }

  /** An automaton of its own: the edges of a pattern are not those of the text around it. */
  #pattern(pattern: string): EbnfExpression {
    const dfa = toDfa(parseWholePattern(pattern, this.#budget), this.#budget);
    return { kind: 'regular', regular: { kind: 'dfa', dfa } };
  }

  #unquoted(quoted: string): string {
    return quoted
      .slice(1, -1)
      .replace(/\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)/g, (_, escaped: string) => {
        if (escaped.length === 1) return SIMPLE_ESCAPES[escaped] ?? escaped;
        const point = Number.parseInt(escaped.slice(1), 16);
        return point > 0x10ffff ? this.#refuse('an escape is no character') : String.fromCodePoint(point);
      });
  }

  #repeated(item: EbnfExpression): EbnfExpression {
    const token = this.#tokens[this.#at];
    if (this.#takeSign('*')) return this.#repeated({ kind: 'repeat', item, min: 0, max: null });
    if (this.#takeSign('+')) return this.#repeated({ kind: 'repeat', item, min: 1, max: null });
    if (this.#takeSign('?')) return this.#repeated({ kind: 'repeat', item, min: 0, max: 1 });
    if (token?.kind !== 'repeat') return item;
    this.#at += 1;
    const [min = '', max] = token.value
      .slice(1, -1)
      .split(',')
      .map((number) => number.trim());
    const least = Number(min);
    const most = max === undefined ? least : max === '' ? null : Number(max);
    if (most !== null && most < least) this.#refuse('a repetition is out of order');
    return this.#repeated({ kind: 'repeat', item, min: least, max: most });
  }
}

const SIMPLE_ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  f: '\f',
  b: '\b',
  '0': '\0',
};

/** Lark marks rules whose place in the tree matters; here there is no tree. */
function ruleName(name: string): string {
  return name.replace(/^[?!]/, '');
}
