// A template's source as tokens, with the whitespace control of the environment in which chat templates run: a line
// break after a tag is dropped (trim_blocks), so are the blanks before one that begins its line (lstrip_blocks).

import { TemplateSyntaxError } from './errors.ts';

export type TokenType =
  | 'text'
  | 'outputBegin'
  | 'outputEnd'
  | 'blockBegin'
  | 'blockEnd'
  | 'name'
  | 'string'
  | 'integer'
  | 'float'
  | 'operator'
  | 'end';

export interface Token {
  readonly type: TokenType;
  /** Of a string its value, of all others as they are written. */
  readonly text: string;
  /** From 1. */
  readonly line: number;
}

const TAG = /\{([%{#])([-+]?)/g;
const RAW = /\s*raw\s*(-%\}\s*|%\})/y;
const END_RAW = /\{%([-+]?)\s*endraw\s*(?:\+%\}|-%\}\s*|%\}\n?)/g;
const COMMENT_END = /\+#\}|-#\}\s*|#\}\n?/g;
const BLOCK_END = /\+%\}|-%\}\s*|%\}\n?/y;
const OUTPUT_END = /-\}\}\s*|\}\}/y;

const BLANKS = /\s+/y;
/** Behind a point there is no second one: `rows.0.1` is two indices. */
const DECIMAL = /(?<!\.)\d+(?:_\d+)*(?:\.\d+(?:_\d+)*)?(?:e[+-]?\d+(?:_\d+)*)?|\d+(?:_\d+)*/iy;
const PREFIXED = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+/iy;
const NAME = /[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}]*/uy;
const STRING = /'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"/sy;
const OPERATOR = /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}><=.:|,]/y;

const CLOSERS: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** @throws TemplateSyntaxError for what no token begins with, and for a tag, text or bracket that does not end. */
export function tokenize(template: string): Token[] {
  const source = template.replace(/\r\n?/g, '\n').replace(/\n$/, '');
  return new Lexer(source).run();
}

class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #position = 0;
  #line = 1;
  /** The line break before here, or the begin of the template, was dropped with a tag or never there. */
  #isLineStart = true;

  constructor(source: string) {
    this.#source = source;
  }

  run(): Token[] {
    for (;;) {
      TAG.lastIndex = this.#position;
      const tag = TAG.exec(this.#source);
      if (tag === null) break;
      const [whole, kind, sign] = tag;
      this.#text(tag.index, sign ?? '', kind !== '{');
      this.#skipTo(tag.index + whole.length);
      if (kind === '#') this.#comment();
      else if (kind === '{') this.#tag('outputBegin', OUTPUT_END, 'outputEnd', '}}');
      else if (!this.#raw()) this.#tag('blockBegin', BLOCK_END, 'blockEnd', '%}');
    }
    this.#text(this.#source.length, '', false);
    this.#push('end', '');
    return this.#tokens;
  }

  /** The text up to `end`, where a tag with `sign` begins. */
  #text(end: number, sign: string, isStripped: boolean): void {
    let text = this.#source.slice(this.#position, end);
    if (sign === '-') text = text.trimEnd();
    else if (sign !== '+' && isStripped) {
      const line = text.lastIndexOf('\n') + 1;
      if ((line > 0 || this.#isLineStart) && text.slice(line).trim() === '') text = text.slice(0, line);
    }
    if (text !== '') this.#push('text', text);
    this.#skipTo(end);
  }

  #comment(): void {
    COMMENT_END.lastIndex = this.#position;
    const end = COMMENT_END.exec(this.#source);
    if (end === null) throw new TemplateSyntaxError('a comment does not end: expected #}', this.#line);
    this.#skipTo(end.index + end[0].length);
  }

  /** Text between {% raw %} and {% endraw %}; false where the tag is another one. */
  #raw(): boolean {
    const begin = this.#match(RAW);
    if (begin === null) return false;
    END_RAW.lastIndex = this.#position;
    const end = END_RAW.exec(this.#source);
    if (end === null) throw new TemplateSyntaxError('raw does not end: expected {% endraw %}', this.#line);
    this.#isLineStart = false;
    this.#text(end.index, end[1] ?? '', true);
    this.#skipTo(end.index + end[0].length);
    return true;
  }

  #tag(begin: TokenType, endPattern: RegExp, end: TokenType, expected: string): void {
    const line = this.#line;
    const open: string[] = [];
    this.#push(begin, '');
    for (;;) {
      const isEnd = open.length === 0 && this.#match(endPattern, end) !== null;
      if (isEnd) return;
      if (this.#position >= this.#source.length) {
        throw new TemplateSyntaxError(`a tag does not end: expected ${open.at(-1) ?? expected}`, line);
      }
      if (this.#match(BLANKS) === null) this.#expressionToken(open);
    }
  }

  #expressionToken(open: string[]): void {
    if (this.#match(NAME, 'name') !== null || this.#match(PREFIXED, 'integer') !== null) return;
    const decimal = this.#match(DECIMAL);
    const line = this.#line;
    if (decimal !== null) {
      this.#tokens.push({ type: /[.e]/i.test(decimal) ? 'float' : 'integer', text: decimal, line });
      return;
    }
    const string = this.#match(STRING);
    if (string !== null) {
      this.#tokens.push({ type: 'string', text: unescaped(string.slice(1, -1), line), line });
      return;
    }
    const operator = this.#match(OPERATOR, 'operator');
    if (operator === null) {
      const char = String.fromCodePoint(this.#source.codePointAt(this.#position) ?? 0);
      throw new TemplateSyntaxError(`unexpected character ${JSON.stringify(char)}`, this.#line);
    }
    const closer = CLOSERS[operator];
    if (closer !== undefined) open.push(closer);
    else if (')]}'.includes(operator) && open.pop() !== operator) {
      throw new TemplateSyntaxError(`unexpected ${operator}`, this.#line);
    }
  }

  /** Takes what `pattern` matches here, as a token where it is to be one. */
  #match(pattern: RegExp, type?: TokenType): string | null {
    pattern.lastIndex = this.#position;
    const text = pattern.exec(this.#source)?.[0];
    if (text === undefined) return null;
    if (type !== undefined) this.#push(type, text);
    this.#skipTo(this.#position + text.length);
    return text;
  }

  #push(type: TokenType, text: string): void {
    this.#tokens.push({ type, text, line: this.#line });
  }

  #skipTo(end: number): void {
    for (let at = this.#position; at < end; at++) if (this.#source[at] === '\n') this.#line += 1;
    if (end > this.#position) this.#isLineStart = this.#source[end - 1] === '\n';
    this.#position = end;
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\x07',
  '\\': '\\',
  "'": "'",
  '"': '"',
  '\n': '',
};

/** As Python reads a string literal: a backslash before a letter that means nothing stays. */
function unescaped(text: string, line: number): string {
  const escaped = /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|(.))/gs;
  return text.replace(escaped, (whole, x?: string, u?: string, long?: string, octal?: string, char = '') => {
    const hex = x ?? u ?? long;
    if (hex !== undefined) return character(Number.parseInt(hex, 16), line);
    if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
    if (/[xuU]/.test(char)) throw new TemplateSyntaxError(`the escape \\${char} needs its digits`, line);
    return ESCAPES[char] ?? whole;
  });
}

function character(code: number, line: number): string {
  if (code > 0x10ffff) throw new TemplateSyntaxError('an escape names no character', line);
  return String.fromCodePoint(code);
}
