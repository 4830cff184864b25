// The lines of a file as they are: bytes that need not be text, and a file that may be longer than any string.

import { readSync } from 'node:fs';

const READ_BYTES = 1 << 20;
const LINE_BREAK = 0x0a;

/** Each with its line break, which only the last may lack. */
export function* byteLines(file: number): Generator<Buffer, undefined> {
  const chunk = Buffer.alloc(READ_BYTES);
  let rest = Buffer.alloc(0);
  let position = 0;
  for (;;) {
    const numRead = readSync(file, chunk, 0, READ_BYTES, position);
    if (numRead === 0) break;
    position += numRead;
    rest = Buffer.concat([rest, chunk.subarray(0, numRead)]);
    let begin = 0;
    for (let end = rest.indexOf(LINE_BREAK); end >= 0; end = rest.indexOf(LINE_BREAK, begin)) {
      yield rest.subarray(begin, end + 1);
      begin = end + 1;
    }
    rest = rest.subarray(begin);
  }
  if (rest.length > 0) yield rest;
}

export function endsInLineBreak(line: Buffer): boolean {
  return line.at(-1) === LINE_BREAK;
}
