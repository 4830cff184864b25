// Patterns of ECMA-262, as JSON Schema uses them: regular ones only.

import type { Budget } from '../limits.ts';
import { CLASS_ESCAPES, NOT_LINE_END, unicodeProperty } from './char-classes.ts';
import { intersect, subtract } from './dfa.ts';
import { ANY_CHAR, chars, choice, EMPTY, type Regular, repeat, sequence, toDfa } from './regular.ts';
import { invertRanges, type Range } from './utf8.ts';

const CONTROL_ESCAPES: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, '0': 0 };
const ONLY_AT_BEGIN = 'which is enforced only behind the ^ that a pattern begins with';
const REFUSED_GROUPS: readonly (readonly [start: string, name: string, why: string])[] = [
  ['(?=', 'a lookahead', ONLY_AT_BEGIN],
  ['(?!', 'a negative lookahead', ONLY_AT_BEGIN],
  ['(?<=', 'a lookbehind', 'which cannot be enforced'],
  ['(?<!', 'a negative lookbehind', 'which cannot be enforced'],
];
const ANYTHING = repeat(ANY_CHAR, 0, null);

/** The texts that match from their first to their last character. */
export function parseWholePattern(pattern: string, budget: Budget): Regular {
  return new PatternParser(pattern, budget).parse(EMPTY);
}

/** The texts that have a match somewhere, as JSON Schema reads patterns. */
export function parsePattern(pattern: string, budget: Budget): Regular {
  return sequence(ANYTHING, new PatternParser(pattern, budget).parse(ANYTHING));
}

class PatternParser {
  readonly #source: readonly string[];
  readonly #pattern: string;
  readonly #budget: Budget;
  #at = 0;
  #depth = 0;

  constructor(pattern: string, budget: Budget) {
    this.#pattern = pattern;
    this.#budget = budget;
    if (pattern.length > budget.limits.maxSourceLength) this.#refuse('is too long');
    this.#source = [...pattern];
  }

  /** @param tail what a text may have behind a match. */
  parse(tail: Regular): Regular {
    const options = [this.#option(tail)];
    while (this.#takeIf('|')) options.push(this.#option(tail));
    if (this.#at < this.#source.length) this.#refuse('has a ) without a (');
    return options.length === 1 ? options[0]! : choice(...options);
  }

  /** Lookaheads are about all the text from where they are: at its beginning that is one set of texts within another. */
  #option(tail: Regular): Regular {
    if (!this.#takeIf('^')) return sequence(this.#sequence(), tail);
    const lookaheads = this.#lookaheads();
    const rest = sequence(this.#sequence(), tail);
    const begin: Regular = { kind: 'edge', at: 'begin' };
    if (lookaheads.length === 0) return sequence(begin, rest);
    let dfa = toDfa(rest, this.#budget);
    for (const { seen, isNegative } of lookaheads) {
      const texts = toDfa(sequence(seen, ANYTHING), this.#budget);
      dfa = (isNegative ? subtract : intersect)(dfa, texts, this.#budget);
    }
    return sequence(begin, { kind: 'dfa', dfa });
  }

  #lookaheads(): { readonly seen: Regular; readonly isNegative: boolean }[] {
    const found: { seen: Regular; isNegative: boolean }[] = [];
    for (;;) {
      const isNegative = this.#takeIf('(?!');
      if (!isNegative && !this.#takeIf('(?=')) return found;
      const seen = this.#peek() === ')' ? EMPTY : this.#choice();
      if (!this.#takeIf(')')) this.#refuse('has a ( without a )');
      found.push({ seen, isNegative });
    }
  }

  #refuse(what: string): never {
    const shown = this.#pattern.length > 80 ? `${this.#pattern.slice(0, 80)}…` : this.#pattern;
    return this.#budget.refuse(`${what}: /${shown}/, at character ${this.#at + 1}`);
  }

  #peek(ahead = 0): string {
    return this.#source[this.#at + ahead] ?? '';
  }

  #take(): string {
    const char = this.#peek();
    if (char === '') this.#refuse('ends too early');
    this.#at += 1;
    return char;
  }

  #takeIf(expected: string): boolean {
    for (let i = 0; i < expected.length; i += 1) if (this.#peek(i) !== expected[i]) return false;
    this.#at += expected.length;
    return true;
  }

  #choice(): Regular {
    this.#depth += 1;
    if (this.#depth > this.#budget.limits.maxDepth) this.#refuse('is nested too deeply');
    const options = [this.#sequence()];
    while (this.#takeIf('|')) options.push(this.#sequence());
    this.#depth -= 1;
    return options.length === 1 ? options[0]! : choice(...options);
  }

  #sequence(): Regular {
    const parts: Regular[] = [];
    while (this.#peek() !== '' && this.#peek() !== '|' && this.#peek() !== ')') parts.push(this.#term());
    return parts.length === 1 ? parts[0]! : sequence(...parts);
  }

  #term(): Regular {
    if (this.#takeIf('^')) return { kind: 'edge', at: 'begin' };
    if (this.#takeIf('$')) return { kind: 'edge', at: 'end' };
    const item = this.#atom();
    const times = this.#quantifier();
    if (times === null) return item;
    // Lazy and greedy differ in where a match is, not in what matches.
    this.#takeIf('?');
    if (this.#peek() === '+') this.#refuse('has a possessive quantifier, which ECMA-262 does not know');
    return repeat(item, times[0], times[1]);
  }

  #quantifier(): readonly [number, number | null] | null {
    if (this.#takeIf('*')) return [0, null];
    if (this.#takeIf('+')) return [1, null];
    if (this.#takeIf('?')) return [0, 1];
    if (this.#peek() !== '{') return null;
    const begin = this.#at;
    this.#at += 1;
    const min = this.#number();
    const max = this.#takeIf(',') ? this.#number() : min;
    if (min === null || !this.#takeIf('}')) {
      // A brace that is no quantifier is a brace.
      this.#at = begin;
      return null;
    }
    if (max !== null && max < min) this.#refuse('has a quantifier out of order');
    return [min, max];
  }

  #number(): number | null {
    let digits = '';
    while (/^[0-9]$/.test(this.#peek()) && digits.length < 16) digits += this.#take();
    return digits === '' ? null : Number(digits);
  }

  #atom(): Regular {
    const char = this.#take();
    if (char === '(') return this.#group();
    if (char === '[') return chars(...this.#charClass());
    if (char === '.') return chars(...NOT_LINE_END);
    if (char === '\\') return chars(...this.#escape());
    this.#at -= 1;
    if (this.#quantifier() !== null) this.#refuse('has a quantifier after nothing');
    this.#at += 1;
    return chars(pointRange(char.codePointAt(0)!));
  }

  #group(): Regular {
    this.#at -= 1;
    for (const [start, name, why] of REFUSED_GROUPS)
      if (this.#takeIf(start)) this.#refuse(`has ${name} ${start}…), ${why}`);
    this.#at += 1;
    if (this.#takeIf('?') && !this.#takeIf(':')) {
      if (!this.#takeIf('<')) this.#refuse('has a kind of group that cannot be enforced');
      while (this.#take() !== '>');
    }
    const inner = this.#peek() === ')' ? EMPTY : this.#choice();
    if (!this.#takeIf(')')) this.#refuse('has a ( without a )');
    return inner;
  }

  /** What follows a backslash, as a set of characters. */
  #escape(): readonly Range[] {
    const char = this.#take();
    const set = CLASS_ESCAPES[char];
    if (set !== undefined) return set;
    if (char === 'b' || char === 'B') this.#refuse(`has a word boundary \\${char}, which cannot be enforced`);
    if (/^[1-9k]$/.test(char)) this.#refuse(`has a backreference \\${char}, which cannot be enforced`);
    if ((char === 'p' || char === 'P') && this.#peek() === '{') return this.#property(char);
    return [pointRange(this.#escapedPoint(char))];
  }

  #escapedPoint(char: string): number {
    const control = CONTROL_ESCAPES[char];
    if (control !== undefined) return control;
    if (char === 'c') return this.#take().codePointAt(0)! % 32;
    if (char === 'x') return this.#hex(2);
    if (char === 'u') return this.#unicodeEscape();
    return char.codePointAt(0)!;
  }

  #unicodeEscape(): number {
    if (this.#takeIf('{')) {
      let digits = '';
      while (!this.#takeIf('}')) digits += this.#take();
      const point = Number.parseInt(digits, 16);
      if (!/^[0-9a-f]{1,8}$/i.test(digits) || point > 0x10ffff) this.#refuse('has an escape of no character');
      return point;
    }
    const unit = this.#hex(4);
    if (unit < 0xd800 || unit > 0xdbff || !this.#takeIf('\\u')) return unit;
    return 0x10000 + (unit - 0xd800) * 0x400 + (this.#hex(4) - 0xdc00);
  }

  #hex(length: number): number {
    let digits = '';
    for (let i = 0; i < length; i += 1) digits += this.#take();
    if (!/^[0-9a-f]+$/i.test(digits)) this.#refuse('has an escape without its hexadecimal digits');
    return Number.parseInt(digits, 16);
  }

  #property(sign: string): readonly Range[] {
    let name = '';
    while (!name.endsWith('}')) name += this.#take();
    if (!/^\{\w+(=\w+)?\}$/.test(name)) this.#refuse(`names no property of characters: \\${sign}${name}`);
    try {
      return unicodeProperty(`\\${sign}${name}`);
    } catch {
      return this.#refuse(`names a property of characters that Unicode does not have: \\${sign}${name}`);
    }
  }

  #charClass(): readonly Range[] {
    const isInverted = this.#takeIf('^');
    const ranges: Range[] = [];
    while (!this.#takeIf(']')) {
      const first = this.#classAtom();
      if (
        this.#peek() !== '-' ||
        this.#peek(1) === ']' ||
        first.length !== 1 ||
        first[0]![0] !== first[0]![1]
      ) {
        ranges.push(...first);
        continue;
      }
      this.#at += 1;
      const last = this.#classAtom();
      if (last.length !== 1 || last[0]![0] !== last[0]![1]) ranges.push(...first, pointRange(0x2d), ...last);
      else if (last[0]![0] < first[0]![0]) this.#refuse('has a range of characters out of order');
      else ranges.push([first[0]![0], last[0]![0]]);
    }
    return isInverted ? invertRanges(ranges) : ranges;
  }

  #classAtom(): readonly Range[] {
    const char = this.#take();
    if (char !== '\\') return [pointRange(char.codePointAt(0)!)];
    if (this.#takeIf('b')) return [pointRange(8)];
    if (this.#takeIf('B')) return [pointRange(0x42)];
    return this.#escape();
  }
}

function pointRange(point: number): Range {
  return [point, point];
}
