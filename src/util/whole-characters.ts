// Cuts texts between characters: JavaScript counts UTF-16 units, and a character beyond U+FFFF has two of them. Half of one
// is no text that JSON, UTF-8 or other languages can carry.

/** At most `length` UTF-16 units from the beginning of `text`, never half a character (code point). */
export function wholeCharacters(text: string, length: number): string {
  const isCut = (text.codePointAt(length - 1) ?? 0) > 0xffff;
  return text.slice(0, isCut ? length - 1 : Math.max(0, length));
}
