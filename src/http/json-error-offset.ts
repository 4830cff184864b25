// Finds where a text stops being JSON: the engine's own parser often does not say. Only called for text that it
// has refused, to show the place.

type Expected = 'value' | 'value or close' | 'key' | 'key or close' | 'colon' | 'comma or close' | 'end';

const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const SPACE = /[ \t\n\r]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/** Offset of the first character that cannot stand where it is; the length of `text` when it ends too early. */
export function jsonErrorOffset(text: string): number {
  const open: ('[' | '{')[] = [];
  let expected: Expected = 'value';
  let at = skip(SPACE, text, 0);
  const afterValue = (): Expected => (open.length === 0 ? 'end' : 'comma or close');
  for (; at < text.length; at = skip(SPACE, text, at)) {
    const char = text[at]!;
    const container = open.at(-1);
    const isClose = char === (container === '[' ? ']' : '}') && container !== undefined;
    if (isClose && expected.endsWith('close')) {
      open.pop();
      expected = afterValue();
      at += 1;
    } else if (expected.startsWith('key') && char === '"') {
      const end = endOfString(text, at);
      if (end.isWrong) return end.offset;
      at = end.offset;
      expected = 'colon';
    } else if (expected === 'colon' && char === ':') {
      at += 1;
      expected = 'value';
    } else if (expected === 'comma or close' && char === ',') {
      at += 1;
      expected = container === '[' ? 'value' : 'key';
    } else if (expected.startsWith('value') && (char === '[' || char === '{')) {
      open.push(char);
      expected = char === '[' ? 'value or close' : 'key or close';
      at += 1;
    } else if (expected.startsWith('value')) {
      const end = char === '"' ? endOfString(text, at) : endOfScalar(text, at);
      if (end.isWrong) return end.offset;
      at = end.offset;
      expected = afterValue();
    } else {
      return at;
    }
  }
  return text.length;
}

function endOfScalar(text: string, start: number): { offset: number; isWrong: boolean } {
  const offset = skip(SCALAR, text, start);
  return { offset, isWrong: offset === start };
}

function endOfString(text: string, start: number): { offset: number; isWrong: boolean } {
  let at = start + 1;
  while (at < text.length) {
    const char = text[at]!;
    if (char === '"') return { offset: at + 1, isWrong: false };
    const next = char === '\\' ? skip(ESCAPE, text, at) : at + 1;
    if (next === at || char < ' ') return { offset: at, isWrong: true };
    at = next;
  }
  return { offset: text.length, isWrong: true };
}

/** Offset behind what the sticky `pattern` matches at `start`; `start` where it matches nothing. */
function skip(pattern: RegExp, text: string, start: number): number {
  pattern.lastIndex = start;
  return pattern.test(text) ? pattern.lastIndex : start;
}
