// JSON as Python's json writes it: with words for numbers that JSON has none for.

/** Strings, so that nothing is found in them, or such a word. A string without an end goes to the end: no quote is tried twice. */
const STRING_OR_WORD = /"[^"\\]*(?:\\.?[^"\\]*)*"?|-?\bInfinity\b|\bNaN\b/gs;

/**
 * What JSON.parse gives; Infinity, -Infinity and NaN become null, as JSON.stringify writes them.
 * @throws SyntaxError where the text is neither.
 */
export function parsePythonJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return JSON.parse(text.replace(STRING_OR_WORD, (found) => (found.startsWith('"') ? found : 'null')));
  }
}
